// Package server stands where the tests of the Go client import nats-server:
// it has the names that they use, and starts a process instead of a goroutine.
package server

import (
	"crypto/tls"
	"net/url"
	"strings"
	"time"
)

const (
	VERSION                    = "2.15.1"
	JSApiLevel                 = 4
	JSApiStreamLeaderStepDownT = "$JS.API.STREAM.LEADER.STEPDOWN.%s"
)

type ClusterOpts struct {
	Name string
	Host string
	Port int
}

type LeafNodeOpts struct {
	Host string
	Port int
}

type WebsocketOpts struct {
	Host        string
	Port        int
	NoTLS       bool
	TLSConfig   *tls.Config
	Compression bool
}

type SubjectPermission struct {
	Allow []string
	Deny  []string
}

type Permissions struct {
	Publish   *SubjectPermission
	Subscribe *SubjectPermission
}

type User struct {
	Username    string
	Password    string
	Permissions *Permissions
}

type NkeyUser struct {
	Nkey string
}

type JSLimitOpts struct {
	MaxAckPending int
}

// Options are those that some test of the client sets.
type Options struct {
	ConfigFile            string
	Host                  string
	Port                  int
	HTTPPort              int
	ServerName            string
	NoLog                 bool
	NoSigs                bool
	Debug                 bool
	Trace                 bool
	MaxControlLine        int32
	MaxPayload            int32
	MaxConn               int
	DisableShortFirstPing bool
	NoHeaderSupport       bool
	NoSystemAccount       bool
	PingInterval          time.Duration
	MaxPingsOut           int
	LameDuckGracePeriod   time.Duration
	LameDuckDuration      time.Duration
	Tags                  []string

	JetStream       bool
	JetStreamDomain string
	JetStreamLimits JSLimitOpts
	StoreDir        string

	Username        string
	Password        string
	Authorization   string
	Users           []*User
	Nkeys           []*NkeyUser
	TrustedKeys     []string
	AccountResolver any

	TLS               bool
	TLSVerify         bool
	TLSHandshakeFirst bool
	TLSTimeout        float64
	TLSConfig         *tls.Config

	Cluster   ClusterOpts
	LeafNode  LeafNodeOpts
	Routes    []*url.URL
	Websocket WebsocketOpts
}

// Clone is a copy that shares the lists.
func (o *Options) Clone() *Options {
	c := *o
	return &c
}

// RoutesFromStr reads a list of URLs with commas between them.
func RoutesFromStr(list string) []*url.URL {
	var routes []*url.URL
	for _, one := range strings.Split(list, ",") {
		if u, err := url.Parse(strings.TrimSpace(one)); err == nil {
			routes = append(routes, u)
		}
	}
	return routes
}
