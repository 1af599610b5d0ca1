package main_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/netns"
)

// resolver answers each question for an address with its own, on a port of 127.0.0.1 in the node's network namespace.
func resolver(t *testing.T, namespace, port, address string) {
	t.Helper()
	var conn net.PacketConn
	err := netns.Do(namespace, func() (err error) {
		conn, err = net.ListenPacket("udp", "127.0.0.1:"+port)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		a := new(dns.Msg)
		a.SetReply(q)
		a.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}, A: net.ParseIP(address)}}
		_ = w.WriteMsg(a)
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.ActivateAndServe() }()
	t.Cleanup(func() {
		_ = server.Shutdown()
		<-ended
	})
}

// reloads is a node with a file of settings.
type reloads struct {
	*boxes
	file string
}

// newReloads makes a node, by newBoxes or newSplitBoxes, whose network module asks one of two name servers; each answers with an address of its own.
func newReloads(t *testing.T, boxesOf func(t *testing.T, args ...string) *boxes) *reloads {
	t.Helper()
	r := &reloads{file: write(t, "dns-servers: [127.0.0.1:5301]\n")}
	r.boxes = boxesOf(t, "--config", r.file)
	resolver(t, r.n.Namespace, "5301", "192.0.2.1")
	resolver(t, r.n.Namespace, "5302", "192.0.2.2")
	return r
}

// set writes the file of settings.
func (r *reloads) set(settings string) {
	r.Helper()
	if err := os.WriteFile(r.file, []byte(settings), 0o600); err != nil {
		r.Fatal(err)
	}
}

// answered waits until a member of the network gets this address for any name.
func (r *reloads) answered(address string) {
	r.Helper()
	r.Until(nodetest.Soon, "the name server's answer is "+address, func() bool {
		conn, err := r.shell.Dial("udp", "10.1.2.1:53", 5*time.Second)
		if err != nil {
			return false
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
			return false
		}
		c := &dns.Conn{Conn: conn}
		if c.WriteMsg(new(dns.Msg).SetQuestion("who.example.org.", dns.TypeA)) != nil {
			return false
		}
		m, err := c.ReadMsg()
		return err == nil && len(m.Answer) == 1 && strings.HasSuffix(m.Answer[0].String(), address)
	})
}

// opened is when each module was opened.
func (r *reloads) opened() map[string]time.Time {
	out := map[string]time.Time{}
	for _, m := range r.n.Status().Modules {
		if m.Phase == "Running" {
			out[m.Name] = m.Opened
		}
	}
	return out
}

// A reload restarts only the modules that read what has changed, while a container answers requests: none is lost. Wrong settings change nothing, and what
// can't change waits for a restart.
func TestAReload(t *testing.T) {
	r := newReloads(t, newBoxes)
	one, url := r.run(nil)
	before, _ := r.n.ContainerStatus(one)
	r.answered("192.0.2.1")
	loop := r.shell.StartLoop(url + "/")

	r.set("dns-servers: [127.0.0.1:5302]\n")
	since := r.opened()
	if said := r.n.Croftd("reload"); !strings.Contains(said, "changed: dns-servers; modules restarted: network") {
		t.Errorf("it says %q", said)
	}
	r.answered("192.0.2.2")
	if said := r.n.Croftd("reload"); !strings.Contains(said, "the settings are the same") {
		t.Errorf("again: %q", said)
	}

	r.set("dns-servers: [nonsense]\n")
	_, err := r.n.TryCroftd("reload")
	var ended *exec.ExitError
	// The command reads the file too: the node hears of it by a signal.
	if !errors.As(err, &ended) || !strings.Contains(string(ended.Stderr), `dns-servers = "nonsense"`) {
		t.Errorf("wrong settings: %v", err)
	}
	r.n.Process.Signal(syscall.SIGHUP)
	r.Until(nodetest.Soon, "the refusal is an event", func() bool { return strings.Contains(events(r.World, r.n), "SettingsRefused") })
	r.answered("192.0.2.2")

	r.set("dns-servers: [127.0.0.1:5301]\nfarm-id: 7\n")
	r.n.Process.Signal(syscall.SIGHUP)
	r.answered("192.0.2.1")
	r.Until(nodetest.Soon, "the node says what needs a restart", func() bool {
		s := r.n.Status()
		return len(s.NeedsRestart) == 1 && s.NeedsRestart[0] == "farm-id" && s.Farm == 0
	})

	asked, failed := loop.Stop()
	if asked == 0 || len(failed) > 0 {
		t.Errorf("of %d requests %d failed: %v", asked, len(failed), failed)
	}
	if after, _ := r.n.ContainerStatus(one); after.PID != before.PID || after.PID == 0 {
		t.Errorf("the container's process was %d, is %d", before.PID, after.PID)
	}
	after := r.opened()
	if len(since) < 2 || len(after) != len(since) {
		t.Errorf("before the reloads %d modules run, afterwards %d", len(since), len(after))
	}
	for name, at := range since {
		switch is, runs := after[name]; {
		case !runs:
			t.Errorf("module %s doesn't run any more", name)
		case name != "network" && !is.Equal(at):
			t.Errorf("module %s was touched", name)
		case name == "network" && !is.After(at):
			t.Errorf("module %s wasn't opened anew: %s, before %s", name, is, at)
		}
	}
	if _, is := since["network"]; !is {
		t.Errorf("module network is none of %v", since)
	}
}

// TestAsProcessesAReload: where modules are processes of their own each reloads by itself, at a hangup, and nothing is lost either.
func TestAsProcessesAReload(t *testing.T) {
	r := newReloads(t, newSplitBoxes)
	one, url := r.run(nil)
	before, _ := r.n.ContainerStatus(one)
	r.answered("192.0.2.1")
	loop := r.shell.StartLoop(url + "/")

	r.set("dns-servers: [nonsense]\n")
	for _, part := range r.split.Parts {
		part.Signal(syscall.SIGHUP)
	}
	r.Until(nodetest.Soon, "the refusal is an event", func() bool { return strings.Contains(events(r.World, r.n), "SettingsRefused") })
	r.answered("192.0.2.1")
	r.set("dns-servers: [127.0.0.1:5302]\n")
	for _, part := range r.split.Parts {
		part.Signal(syscall.SIGHUP)
	}
	r.answered("192.0.2.2")

	asked, failed := loop.Stop()
	if asked == 0 || len(failed) > 0 {
		t.Errorf("of %d requests %d failed: %v", asked, len(failed), failed)
	}
	if after, _ := r.n.ContainerStatus(one); after.PID != before.PID || after.PID == 0 {
		t.Errorf("the container's process was %d, is %d", before.PID, after.PID)
	}
}
