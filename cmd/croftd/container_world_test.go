package main_test

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/workload"
)

// boxes is a node with a user's network and a member in it, which sends requests to containers.
type boxes struct {
	*internet
	n *nodetest.Node
	// split is the node as separate processes, nil for one process.
	split *nodetest.Split
	part  *nodetest.Part
	net   *workload.Reservation
	shell *nodetest.Member
}

// shellID is the ID of the member without a reservation.
const shellID = "900000-1"

func newBoxes(t *testing.T, args ...string) *boxes {
	t.Helper()
	b := &boxes{internet: newInternet(t)}
	b.n, _ = b.node("n1", "203.0.113.11", args...)
	return b.furnish()
}

func newSplitBoxes(t *testing.T, args ...string) *boxes {
	t.Helper()
	b := &boxes{internet: newInternet(t)}
	b.Namespace = b.host("n1", "203.0.113.11").Path()
	b.split = b.StartSplit("n1", append([]string{"--allow-private", nodetest.Public}, args...)...)
	b.Namespace = b.Hub.Path()
	b.n = b.split.Node
	return b.furnish()
}

// furnish makes the network and its member.
func (b *boxes) furnish() *boxes {
	b.Helper()
	b.part = b.Part(b.n, "10.1.2.0/24", 3001, "")
	b.net = b.Push(b.Networks(b.User, "net1", b.part)[0])
	b.Result(b.net, workload.StateOK)
	b.Until(nodetest.Soon, "the container module is there", func() bool { return b.n.Status().Container.Containerd != "" })
	b.shell = b.n.Join(node.MemberSpec{Network: nodetest.NetworkID(b.User, "net1"), Member: shellID})
	return b
}

// leave removes the member from the network, so that the network can end.
func (b *boxes) leave() {
	b.Helper()
	networks, _ := b.n.Modules()
	if err := networks.Leave(b.Context(), nodetest.NetworkID(b.User, "net1"), shellID); err != nil {
		b.Error(err)
	}
}

// run pushes a container and waits until it answers; change is as for World.Container.
func (b *boxes) run(change func(*workload.Container)) (*workload.Reservation, string) {
	b.Helper()
	r := b.Push(b.Container(b.n, change))
	result := b.ContainerResult(r)
	url := "http://" + result.IPv4 + ":8080"
	b.shell.MustGet(url + "/")
	return r, url
}

// exit makes a container's server exit with a code; its answer may be cut off.
func (b *boxes) exit(url string, code int) {
	b.Helper()
	_, _ = b.Do(b.shell.Path(), http.MethodPost, fmt.Sprint(url, "/exit?code=", code), "", time.Minute)
}

// volume pushes a volume of 1 GiB and waits until it is there.
func (b *boxes) volume() *workload.Reservation {
	b.Helper()
	r := b.Reserve(b.n, time.Hour)
	b.Result(r, workload.StateOK)
	return r
}

// gone deletes a reservation and waits for its end.
func (b *boxes) gone(r *workload.Reservation) {
	b.Helper()
	b.Delete(r)
	b.Result(r, workload.StateDeleted)
}

// nothing waits until the node has no more than before: containerd collects its garbage asynchronously.
func (b *boxes) nothing(before []string) {
	b.Helper()
	var left []string
	deadline := time.Now().Add(back)
	for {
		if left = b.n.LeftSince(before); len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			b.Errorf("left behind:\n%s", strings.Join(left, "\n"))
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// only fails unless the node has exactly these containers, each once and running, and returns them.
func (b *boxes) only(want ...*workload.Reservation) []node.ContainerInfo {
	b.Helper()
	have := b.n.Status().Containers
	var ids []string
	for _, c := range have {
		ids = append(ids, c.ID)
		if c.State != node.ContainerRunning || c.Drift != "" {
			b.Errorf("%+v", c)
		}
	}
	var wanted []string
	for _, r := range want {
		wanted = append(wanted, r.ID)
	}
	slices.Sort(ids)
	slices.Sort(wanted)
	if !slices.Equal(ids, wanted) {
		b.Errorf("the node has the containers %v, want %v", ids, wanted)
	}
	shims := 0
	for _, line := range b.n.Left() {
		if strings.HasPrefix(line, "process containerd-shim") {
			shims++
		}
	}
	if shims != len(want) {
		b.Errorf("%d shims run for %d containers", shims, len(want))
	}
	return have
}

// module is a module as the node shows it, and the reason of its condition Running.
func (b *boxes) module(name string) (m host.ModuleSpec, reason string) {
	b.Helper()
	s, err := b.n.TryStatus()
	if err != nil {
		return m, ""
	}
	for _, m = range s.Modules {
		if m.Name == name {
			running, _ := resources.Find(m.Conditions, host.Running)
			return m, running.Reason
		}
	}
	b.Fatalf("the node shows no module %s", name)
	return m, ""
}

// mentions fails unless text contains all of the words.
func mentions(t testing.TB, what, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%s: no %q in %q", what, word, text)
		}
	}
}

func addresses(all ...string) []net.IP {
	var out []net.IP
	for _, a := range all {
		out = append(out, net.ParseIP(a).To4())
	}
	return out
}
