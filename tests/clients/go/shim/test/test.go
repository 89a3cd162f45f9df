// Package test has the names by which the client's tests start a server.
package test

import "github.com/nats-io/nats-server/v2/server"

// DefaultTestOptions are copied by tests and changed in the copy.
var DefaultTestOptions = server.Options{
	Host:           "127.0.0.1",
	Port:           4222,
	NoLog:          true,
	NoSigs:         true,
	MaxControlLine: 4096,
}

// RunServer starts a server with these options, or the default ones.
func RunServer(o *server.Options) *server.Server {
	if o == nil {
		defaults := DefaultTestOptions
		o = &defaults
	}
	return server.Run(o)
}

// RunDefaultServer starts a server on the default port.
func RunDefaultServer() *server.Server {
	return RunServer(nil)
}

// RunServerWithConfig starts a server with a configuration file as it is.
func RunServerWithConfig(file string) (*server.Server, *server.Options) {
	o := &server.Options{ConfigFile: file}
	return server.RunFile(file, o), o
}
