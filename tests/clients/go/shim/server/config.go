package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// A file may not say less, options may.
const shortestLameDuck = 30 * time.Second

// config writes the options as nats-server's configuration file has them.
func (s *Server) config() string {
	o := s.opts
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("host: %q", s.host)
	line("port: %d", s.port)
	line("http: \"127.0.0.1:%d\"", s.monitor)
	if o.ServerName != "" {
		line("server_name: %q", o.ServerName)
	}
	if o.NoHeaderSupport {
		line("no_header_support: true")
	}
	if o.MaxPayload > 0 {
		line("max_payload: %d", o.MaxPayload)
	}
	if o.MaxConn > 0 {
		line("max_connections: %d", o.MaxConn)
	}
	if o.PingInterval > 0 {
		line("ping_interval: %q", o.PingInterval)
	}
	if o.LameDuckDuration >= shortestLameDuck {
		line("lame_duck_duration: %q", o.LameDuckDuration)
		line("lame_duck_grace_period: %q", o.LameDuckGracePeriod)
	}
	if o.JetStream {
		line("jetstream {")
		line("store_dir: %q", s.store)
		if o.JetStreamDomain != "" {
			line("domain: %q", o.JetStreamDomain)
		}
		if o.JetStreamLimits.MaxAckPending > 0 {
			line("limits { max_ack_pending: %d }", o.JetStreamLimits.MaxAckPending)
		}
		line("}")
	}
	if s.websocket != 0 {
		line("websocket { host: \"127.0.0.1\", port: %d, no_tls: true, compression: %v }",
			s.websocket, o.Websocket.Compression)
	}
	line("%s", authorization(o))
	return b.String()
}

func authorization(o *Options) string {
	switch {
	case len(o.Users) > 0:
		var users []string
		for _, u := range o.Users {
			users = append(users, fmt.Sprintf("{user: %q, password: %q%s}",
				u.Username, u.Password, permissions(u.Permissions)))
		}
		return "authorization { users = [\n" + strings.Join(users, "\n") + "\n] }"
	case o.Username != "":
		return fmt.Sprintf("authorization { user: %q, password: %q }", o.Username, o.Password)
	case o.Authorization != "":
		return fmt.Sprintf("authorization { token: %q }", o.Authorization)
	}
	return ""
}

func permissions(p *Permissions) string {
	if p == nil {
		return ""
	}
	return ", permissions: {" + side("publish", p.Publish) + side("subscribe", p.Subscribe) + "}"
}

func side(name string, p *SubjectPermission) string {
	if p == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: {", name)
	for _, half := range []struct {
		name     string
		subjects []string
	}{{"allow", p.Allow}, {"deny", p.Deny}} {
		if len(half.subjects) > 0 {
			list, _ := json.Marshal(half.subjects)
			fmt.Fprintf(&b, "%s: %s\n", half.name, list)
		}
	}
	return b.String() + "}\n"
}
