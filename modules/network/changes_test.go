package network_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance"
	changesconformance "github.com/croft-edge/croft/pkg/node/conformance/changes"
)

// Two networks' changes are told as theirs; those of a link in the node's namespace, and in a namespace that somebody else
// has connected to it, are nobody's.
func TestChangesConform(t *testing.T) {
	f := newFixture(t)
	namespaces := map[string]string{}
	for i, label := range []string{"1-1", "8-8"} {
		spec := conformance.NetworkSpec(t, fmt.Sprint("net", i), fmt.Sprintf("10.1.%d.0/24", i+1), port(t))
		spec.Label = label
		info, err := f.networks.Create(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		namespaces[label] = info.Namespace
	}
	theirs := process(t)
	run(t, "/proc/self/ns/net", fmt.Sprintf("ip link add someones type veth peer name inner netns %d", theirs))
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", "someones").Run() })
	made := 0
	changesconformance.Suite(t, changesconformance.Subject{
		Changes: f.mod.Changes(), One: "1-1", Other: "8-8",
		Change: func(t *testing.T, id string) {
			t.Helper()
			made++
			run(t, namespaces[id], fmt.Sprintf("ip addr add 192.0.2.%d/32 dev br0", made))
		},
		Foreign: func(t *testing.T) {
			t.Helper()
			for _, state := range []string{"up", "down"} {
				run(t, "/proc/self/ns/net", "ip link set someones "+state)
				run(t, fmt.Sprintf("/proc/%d/ns/net", theirs), "ip link set inner "+state)
			}
		},
		Restart: func(t *testing.T) node.Changes {
			t.Helper()
			f.restart()
			if all, err := f.networks.List(t.Context()); err != nil || len(all) != len(namespaces) {
				t.Fatalf("after a restart there are %+v, %v", all, err)
			}
			return f.mod.Changes()
		},
	})
}

// A forward delay has the kernel tell of a change of each member's link 15 seconds after it has joined, though nothing has changed.
func TestTheBridgeForwardsAtOnce(t *testing.T) {
	f := newFixture(t)
	info, err := f.networks.Create(t.Context(), conformance.NetworkSpec(t, "net1", "10.1.1.0/24", port(t)))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("nsenter", "--net="+info.Namespace, "ip", "-d", "link", "show", "type", "bridge").CombinedOutput()
	if err != nil || !strings.Contains(string(out), " forward_delay 0 ") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestChangesOfANetworkAreTold(t *testing.T) {
	h := newHousehold(t)
	other := conformance.NetworkSpec(t, "net2", "10.1.9.0/24", port(t))
	other.Label = "8-8"
	if _, err := h.networks.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	e := changesconformance.Listen(t, h.mod.Changes())
	web := fmt.Sprintf("/proc/%d/ns/net", h.webPID)
	for _, c := range []struct{ name, where, run string }{
		{"a rule", h.info.Namespace, "nft add table inet someones"},
		{"a port's rate", h.info.Namespace, "tc qdisc del dev m0 root"},
		{"a route", h.info.Namespace, "ip route del default"},
		{"an address of a member", web, "ip addr flush dev eth0"},
		{"a member's link", web, "ip link set eth0 down"},
		{"a port's veth", h.info.Namespace, "ip link del m1"},
		{"the bridge", h.info.Namespace, "ip link del br0"},
		{"the uplink", h.info.Namespace, "ip link del up0"},
		{"all tables", h.info.Namespace, "nft flush ruleset"},
	} {
		if out, err := exec.Command("nsenter", append([]string{"--net=" + c.where}, strings.Fields(c.run)...)...).CombinedOutput(); err != nil {
			if strings.HasPrefix(c.run, "tc ") {
				continue // without a rate there is none
			}
			t.Fatalf("%s: %v: %s", c.name, err, out)
		}
		e.HearsOnly(c.name, h.spec.Label)
	}
	if _, err := h.networks.Create(t.Context(), h.spec); err != nil {
		t.Fatal(err)
	}
	e.Calm()
	if err := unix.Unmount(h.info.Namespace, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	e.HearsOnly("the namespace's mount", h.spec.Label)
}

// While the kernel tells nothing a look reads nothing of a network's links and rules again.
func TestUnchangedNetworkIsVouchedFor(t *testing.T) {
	h := newHousehold(t)
	changesconformance.Listen(t, h.mod.Changes())
	for range 3 {
		if drift := h.drift(); drift != "" {
			t.Fatal(drift)
		}
	}
	// What the kernel tells is seen by the next look, whoever has heard of it.
	run(t, h.info.Namespace, "ip link set br0 down")
	for end := time.Now().Add(patience); h.drift() == ""; {
		if time.Now().After(end) {
			t.Fatal("a look doesn't see that the bridge is down")
		}
	}
	h.create()
	if drift := h.drift(); drift != "" {
		t.Fatal(drift)
	}
}

func TestInspectIsAListOfSome(t *testing.T) {
	h := newHousehold(t)
	inspector := h.mod.Inspector()
	for labels, want := range map[string]int{h.spec.Label: 1, "99-9": 0, "99-9 " + h.spec.Label: 1, "": 0} {
		got, err := inspector.Inspect(strings.Fields(labels))
		if err != nil || len(got) != want {
			t.Fatalf("of %q there are %d, %v", labels, len(got), err)
		}
		if want == 1 && (got[0].ID != h.spec.ID || got[0].Drift != "" || len(got[0].Members) != 2) {
			t.Errorf("is %+v", got[0])
		}
	}
	run(t, h.info.Namespace, "ip link del m0")
	if got, err := inspector.Inspect([]string{h.spec.Label}); err != nil || len(got) != 1 || got[0].Drift != h.drift() {
		t.Errorf("is %+v, %v", got, err)
	}
}
