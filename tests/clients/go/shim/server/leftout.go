package server

import (
	"crypto/tls"
	"errors"
	"os"
	"regexp"
)

// leaveOut ends a test by name: the runner looks for these words.
func leaveOut(why string) {
	panic("LEFT OUT: " + why)
}

// Words of a configuration file that ask for more than one plain server.
var beyond = []struct {
	word *regexp.Regexp
	why  string
}{
	{regexp.MustCompile(`(?m)^\s*(cluster|routes)\b`), "a cluster"},
	{regexp.MustCompile(`(?m)^\s*leafnodes\b`), "leaf nodes"},
	{regexp.MustCompile(`(?m)^\s*tls\b`), "TLS"},
	{regexp.MustCompile(`(?m)^\s*(operator|resolver|resolver_preload|trusted_keys)\b`), "JWT"},
	{regexp.MustCompile(`(?m)\bnkey\b`), "nkeys"},
	{regexp.MustCompile(`(?m)^\s*accounts\b`), "several accounts"},
}

func refuseOptions(o *Options) {
	switch {
	case len(o.Routes) > 0 || o.Cluster.Port != 0:
		leaveOut("a cluster")
	case o.LeafNode.Port != 0:
		leaveOut("leaf nodes")
	case o.TLS || o.TLSConfig != nil || o.Websocket.TLSConfig != nil:
		leaveOut("TLS")
	case len(o.TrustedKeys) > 0:
		leaveOut("JWT")
	case len(o.Nkeys) > 0:
		leaveOut("nkeys")
	}
}

func refuseFile(file string) {
	raw, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	for _, one := range beyond {
		if one.word.Match(raw) {
			leaveOut(one.why)
		}
	}
}

// What follows is only there for the tests to compile.

type TLSConfigOpts struct {
	CertFile string
	KeyFile  string
	CaFile   string
	Verify   bool
}

func GenTLSConfig(*TLSConfigOpts) (*tls.Config, error) {
	return &tls.Config{}, nil
}

type MemAccResolver struct{}

func (*MemAccResolver) Store(string, string) error {
	return errors.New("no accounts here")
}

type Account struct {
	Name string
}

func (*Server) LookupAccount(string) (*Account, error) {
	leaveOut("several accounts")
	return nil, nil
}

func (*Server) UpdateAccountClaims(*Account, any) { leaveOut("JWT") }
func (*Server) SetAccountResolver(any)            { leaveOut("JWT") }

// EnableJetStream on a running server is a call, no configuration can say it.
func (*Server) EnableJetStream(*JetStreamConfig) error {
	leaveOut("JetStream switched on in a running server by a call")
	return nil
}
