package server

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// What the runner says: the command of the server, and where its log goes.
const (
	commandVar = "OFFICIAL_SERVER"
	logVar     = "OFFICIAL_LOG"
)

// How long a server may take to start, to end, and to read its file again.
const (
	startWithin  = 40 * time.Second
	endWithin    = 20 * time.Second
	reloadWithin = 5 * time.Second
	look         = 10 * time.Millisecond
)

// Server is one process and the addresses that it has.
type Server struct {
	opts      *Options
	host      string
	port      int
	monitor   int
	websocket int
	store     string
	file      string
	process   *os.Process
	ended     chan struct{}
	ending    sync.Mutex
}

type JetStreamConfig struct {
	StoreDir string
}

// Run starts a server from options and returns when it serves.
func Run(o *Options) *Server {
	refuseOptions(o)
	s := &Server{opts: o, host: o.Host, port: o.Port, monitor: freePort()}
	if s.host == "" {
		s.host = "127.0.0.1"
	}
	switch {
	case o.Port < 0:
		s.port = freePort()
		o.Port = s.port
	case o.Port == 0:
		s.port = 4222
	}
	if o.Websocket.Port < 0 {
		o.Websocket.Port = freePort()
	}
	s.websocket = o.Websocket.Port
	if o.JetStream {
		if o.StoreDir == "" {
			o.StoreDir = must(os.MkdirTemp("", "official-store"))
		}
		s.store = o.StoreDir
	}
	file := must(os.CreateTemp("", "official-*.conf"))
	must(file.WriteString(s.config()))
	file.Close()
	s.file = file.Name()
	s.start("-c", s.file)
	return s
}

// RunFile starts a server from a configuration file and reads back what it says.
func RunFile(file string, o *Options) *Server {
	refuseFile(file)
	s := &Server{opts: o, host: "127.0.0.1", file: file, monitor: freePort()}
	s.start("-c", file, "-m", fmt.Sprint(s.monitor))
	v := s.varz()
	s.port = v.Port
	if dir := v.JetStream.Config.StoreDir; dir != "" {
		s.store = filepath.Dir(dir)
	}
	o.Host, o.Port = s.host, s.port
	return s
}

func (s *Server) start(args ...string) {
	log := must(os.OpenFile(os.Getenv(logVar), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644))
	command := append(strings.Fields(os.Getenv(commandVar)), args...)
	run := exec.Command(command[0], command[1:]...)
	run.Stdout, run.Stderr = log, log
	if err := run.Start(); err != nil {
		panic(err)
	}
	s.process, s.ended = run.Process, make(chan struct{})
	go func() {
		run.Wait()
		log.Close()
		close(s.ended)
	}()
	if !s.await(startWithin, s.healthy) {
		panic("the server did not start: " + strings.Join(args, " "))
	}
}

// await looks until it holds; false when the time is over or the process ended.
func (s *Server) await(within time.Duration, holds func() bool) bool {
	over := time.After(within)
	for !holds() {
		select {
		case <-s.ended:
			return false
		case <-over:
			return false
		case <-time.After(look):
		}
	}
	return true
}

func (s *Server) healthy() bool {
	answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/healthz", s.monitor))
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

type varz struct {
	Port        int    `json:"port"`
	ID          string `json:"server_id"`
	Name        string `json:"server_name"`
	Connections int    `json:"connections"`
	Loaded      string `json:"config_load_time"`
	JetStream   struct {
		Config struct {
			StoreDir string `json:"store_dir"`
		} `json:"config"`
	} `json:"jetstream"`
}

func (s *Server) varz() varz {
	var v varz
	answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/varz", s.monitor))
	if err != nil {
		return v
	}
	defer answer.Body.Close()
	json.NewDecoder(answer.Body).Decode(&v)
	return v
}

// Shutdown ends the process as a service manager does.
func (s *Server) Shutdown() {
	if s == nil || s.process == nil {
		return
	}
	s.ending.Lock()
	defer s.ending.Unlock()
	s.process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(endWithin):
		s.process.Kill()
		<-s.ended
		fmt.Fprintln(os.Stderr, "THE SERVER DID NOT END")
	}
}

// LameDuckShutdown returns when the server has let its clients go.
func (s *Server) LameDuckShutdown() {
	if o := s.opts; o.LameDuckDuration > 0 && o.LameDuckDuration < shortestLameDuck {
		leaveOut("a lame duck's time that no file may say")
	}
	s.process.Signal(syscall.SIGUSR2)
	<-s.ended
}

func (s *Server) WaitForShutdown() { <-s.ended }

// Reload returns when the file is read again, or refused.
func (s *Server) Reload() error {
	before := s.varz().Loaded
	s.process.Signal(syscall.SIGHUP)
	if !s.await(reloadWithin, func() bool { return s.varz().Loaded != before }) {
		return fmt.Errorf("the configuration was not taken")
	}
	return nil
}

func (s *Server) ReloadOptions(o *Options) error {
	s.opts = o
	if err := os.WriteFile(s.file, []byte(s.config()), 0o644); err != nil {
		return err
	}
	return s.Reload()
}

func (s *Server) ClientURL() string { return fmt.Sprintf("nats://%s:%d", s.host, s.port) }
func (s *Server) Addr() net.Addr    { return &net.TCPAddr{IP: net.ParseIP(s.host), Port: s.port} }
func (s *Server) ID() string        { return s.varz().ID }
func (s *Server) Name() string      { return s.varz().Name }
func (s *Server) NumClients() int   { return s.varz().Connections }

// InProcessConn is a connection over the loopback: the server is a process.
func (s *Server) InProcessConn() (net.Conn, error) {
	return net.Dial("tcp", s.Addr().String())
}

// There are no clusters here.
func (s *Server) NumRoutes() int            { return 0 }
func (s *Server) ClusterAddr() *net.TCPAddr { return nil }

func (s *Server) JetStreamEnabled() bool { return s.store != "" }

func (s *Server) JetStreamConfig() *JetStreamConfig {
	if s.store == "" {
		return nil
	}
	return &JetStreamConfig{StoreDir: s.store}
}

func freePort() int {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
