package nodetest

import (
	"os/exec"
	"strings"
)

// Split is a node whose modules are separate processes, on a redis server.
type Split struct {
	*Node
	// Parts are its processes by command.
	Parts map[string]*Process
	// Redis is the bus.
	Redis *Process
}

// StartSplit makes a node of that name, its redis server and its processes,
// and waits until it is ready and known to the explorer.
func (w *World) StartSplit(name string, args ...string) *Split {
	w.Helper()
	s := &Split{Node: w.NewNode(name), Parts: map[string]*Process{}}
	s.Args = append(args, "--bus", s.RedisURL())
	s.StartRedis()
	for _, part := range []string{"provision", "monitor", "storage", "identity", "debug", "network", "container", "zdb", "vm"} {
		s.StartPart(part)
	}
	s.WaitReady()
	s.WaitRegistered()
	return s
}

// RedisURL is the URL of the node's bus.
func (s *Split) RedisURL() string { return "unix://" + s.w.Path(s.name+".redis") }

// StartRedis starts the bus and waits until it answers.
func (s *Split) StartRedis() {
	s.w.Helper()
	socket := strings.TrimPrefix(s.RedisURL(), "unix://")
	s.Redis = s.w.Start(s.name+"-redis", "redis-server", "--port", "0", "--unixsocket", socket, "--unixsocketperm", "700",
		"--save", "", "--appendonly", "no", "--dir", s.w.Dir)
	s.w.Until(Soon, "redis answers", func() bool {
		s.Redis.MustRun()
		out, err := exec.CommandContext(s.w.Context(), "redis-cli", "-s", socket, "ping").Output()
		return err == nil && strings.TrimSpace(string(out)) == "PONG"
	})
}

// StartPart starts one of the node's processes.
func (s *Split) StartPart(part string) {
	s.w.Helper()
	s.Parts[part] = s.start(s.name+"-"+part, append([]string{part}, s.Flags()...)...)
	if part == "provision" {
		s.Process = s.Parts[part]
	}
}

// StopAll stops the node's processes in order; redis stays.
func (s *Split) StopAll() {
	s.w.Helper()
	for _, part := range []string{"provision", "storage", "monitor", "identity", "debug", "vm", "zdb", "container", "network"} {
		s.Parts[part].Stop()
	}
}
