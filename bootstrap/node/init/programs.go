package main

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/internal/guest/service"
	"github.com/croft-edge/croft/modules/container/containerd/configuration"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	redisSocket      = "/run/redis.sock"
	busURL           = "unix://" + redisSocket
	containerdSocket = "/run/containerd/containerd.sock"
	containerdConfig = "/run/config/containerd.toml"
	settingsFile     = "/run/config/croftd.yaml"
	// healthFile gets the address at which the engine's process serves its health.
	healthFile = runAt + "/health"
	// doorFile gets that of the node's door.
	doorFile = runAt + "/door"
	croftd   = "/usr/bin/croftd"
	// engine is the program that has the engine.
	engine = "provision"
	// patience is how long a program waits for those that it needs before it is started all the same: it waits for them too.
	patience = time.Minute
)

// containerdPlaces are where the image's containerd has its things.
func containerdPlaces() configuration.Places {
	return configuration.Places{Root: "/var/lib/containerd", State: "/run/containerd", Socket: containerdSocket, Opt: "/var/lib/containerd/opt"}
}

// imageSettings are the settings of croftd that the image makes.
func imageSettings() map[string]string {
	return map[string]string{
		"bus": busURL, "state-dir": "/var/lib/croft", "run-dir": "/run/croft", "containerd": containerdSocket, "health-file": healthFile, "door-file": doorFile,
		"hooks-dir": configAt + "/hooks.d", "secrets-dir": configAt + "/secrets", "init-binary": "/usr/bin/croft-init", "zdb-binary": "/usr/bin/zdb",
	}
}

// workloadsNeed stands for the kernel modules that workloads need.
const workloadsNeed = "kernel modules"

// kept is a program of a node, with those behind which it starts: those that it needs, and those that more waits for.
type kept struct {
	service.Spec
	behind []string
	// module is the name on the bus of the module that it runs; empty for none.
	module string
}

// early are the programs that need neither settings nor the node's state.
func early() []kept {
	return []kept{{Spec: service.Spec{Name: "redis", Ready: redisAnswers, Command: []string{
		"/usr/bin/redis-server", "--port", "0", "--unixsocket", redisSocket, "--unixsocketperm", "700", "--save", "", "--appendonly", "no",
		"--dir", "/run", "--maxmemory", "256mb", "--maxmemory-policy", "noeviction",
	}}}}
}

// parts are containerd and the parts of croftd. The engine waits for the others itself, and for the explorer, so it starts with the first of them.
func parts() []kept {
	first, workloads := []string{"redis"}, []string{"redis", "identity", workloadsNeed}
	all := []kept{{
		Spec:   service.Spec{Name: "containerd", Ready: listens(containerdSocket), Command: []string{"/usr/bin/containerd", "--config", containerdConfig}},
		behind: []string{"identity"},
	}}
	for _, m := range []struct {
		name, bus string
		behind    []string
	}{
		{"identity", node.IdentityModule, first},
		{"storage", node.StorageModule, first},
		{"monitor", node.MonitorModule, first},
		{"network", node.NetworkModule, workloads},
		{"container", node.ContainerModule, append(workloads, "storage", "containerd")},
		{"zdb", node.ZDBModule, append(workloads, "storage")},
		{"vm", node.VMModule, append(workloads, "storage")},
		{"debug", node.DebugModule, workloads},
	} {
		all = append(all, kept{service.Spec{Name: m.name, Ready: onBus(m.bus), Command: part(m.name)}, m.behind, m.bus})
	}
	return append(all, kept{Spec: service.Spec{Name: engine, Ready: nodeReady, Command: part(engine)}, behind: first})
}

// part is the command of a part of croftd.
func part(name string) []string { return []string{croftd, name, "--config", settingsFile} }

// starter starts programs, each once those behind which it starts are ready.
type starter struct {
	runner *service.Runner
	say    func(format string, args ...any)
	// started are closed when the programs of these names were started.
	started map[string]chan struct{}
}

func newStarter(runner *service.Runner, say func(format string, args ...any)) *starter {
	return &starter{runner: runner, say: say, started: map[string]chan struct{}{}}
}

// start starts programs, in the background. Those behind which they start are among them or were started before.
func (s *starter) start(ctx context.Context, programs []kept) {
	for _, k := range programs {
		s.started[k.Name] = make(chan struct{})
	}
	for _, k := range programs {
		var needed []chan struct{}
		for _, need := range k.behind {
			needed = append(needed, s.started[need])
		}
		done := s.started[k.Name]
		go func() {
			for _, need := range needed {
				select {
				case <-need:
				case <-ctx.Done():
				case <-after(patience):
				}
			}
			waitFor(ctx, s.runner, k, s.say)
			running, err := s.runner.Start(k.Spec)
			close(done)
			if err != nil {
				s.say("%v", err)
				return
			}
			if running.WaitReady(ctx) == nil {
				s.say("%s is ready", k.Name)
			}
		}()
	}
}

// waitFor waits until the programs behind which another one starts are ready, but not for ever.
func waitFor(ctx context.Context, runner *service.Runner, k kept, say func(format string, args ...any)) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, need := range k.behind {
		if s := runner.Service(need); s != nil {
			if err := s.WaitReady(ctx); err != nil {
				say("%s starts all the same: %v", k.Name, err)
			}
		}
	}
}

// waitStarted waits until a program is started and ready.
func waitStarted(ctx context.Context, runner *service.Runner, name string) error {
	for {
		if s := runner.Service(name); s != nil {
			return s.WaitReady(ctx)
		}
		if !pause(ctx, lookPause) {
			return ctx.Err()
		}
	}
}

// lookPause is the time between two looks for a program that isn't started yet.
const lookPause = 50 * time.Millisecond

// redisAnswers asks redis whether it is there.
func redisAnswers(ctx context.Context) error { return pingRedis(ctx, redisSocket) }

func pingRedis(ctx context.Context, socket string) error {
	conn, err := dial(ctx, socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return errors.Wrap(err, "cannot ask redis")
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && strings.TrimSpace(line) != "+PONG" {
		err = errors.Errorf("it answers %q", line)
	}
	return errors.Wrap(err, "cannot ask redis")
}

// listens tries whether somebody listens on a socket.
func listens(socket string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		conn, err := dial(ctx, socket)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

func dial(ctx context.Context, socket string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, errors.Wrap(err, "cannot connect")
	}
	if end, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(end); err != nil {
			conn.Close()
			return nil, errors.Wrap(err, "cannot connect")
		}
	}
	return conn, nil
}

// onBus asks a module for its status over the bus.
func onBus(module string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		client, err := bus.Dial(ctx, busURL, bus.Options{Log: zerolog.Nop()})
		if err != nil {
			return err
		}
		defer client.Close()
		_, err = client.Status(ctx, module)
		return err
	}
}

// nodeReady asks the engine's process whether the node takes reservations.
func nodeReady(ctx context.Context) error { return askHealth(ctx, healthFile, "/readyz") }

// engineTurns asks the engine's process whether its engine turns.
func engineTurns(ctx context.Context) error { return askHealth(ctx, healthFile, "/healthz") }

// askHealth asks the engine's process, which has written the address where it answers into a file.
func askHealth(ctx context.Context, file, path string) error {
	address, err := os.ReadFile(file)
	if err != nil {
		return errors.Wrap(err, "cannot ask the engine: its process hasn't written down where it answers")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+strings.TrimSpace(string(address))+path, nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return errors.Wrap(err, "cannot ask the engine")
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.Errorf("%s answers %s", path, answer.Status)
	}
	return nil
}
