package main_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	frames "github.com/croft-edge/croft/internal/testing/frame"
	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/internal/testing/vmguest"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/nocloud"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// newVMs is a node with a user's network that boots the small guest for Kubernetes VMs.
func newVMs(t *testing.T, args ...string) *boxes {
	t.Helper()
	b := &boxes{internet: newInternet(t)}
	args = append(args, "--pool-size", "24GiB", "--cpu-overcommit", "8")
	b.n, _ = b.node("n1", "203.0.113.11", append(args, b.VMImage()...)...)
	return b.furnish()
}

// deploy reserves a VM and waits until its guest answers a container.
func (b *boxes) deploy(ip, from string) (*workload.Reservation, *vmguest.Client) {
	b.Helper()
	r := b.Push(b.Kubernetes(b.n, ip))
	if got := b.KubernetesResult(r); got.ID != r.ID || got.IP != ip {
		b.Errorf("the result is %+v", got)
	}
	guest, _ := b.Booted(from, ip)
	return r, guest
}

// TestAVMFromReservationToDeletion: its guest answers a container, outlives the agent, keeps its disk over a crash and a reboot
// of the node, and powers off.
func TestAVMFromReservationToDeletion(t *testing.T) {
	b := newVMs(t)
	before := b.n.Left()
	box, url := b.run(nil)
	inBox := netns.OfProcess(b.n.WaitRunning(box).PID)
	vm, guest := b.deploy("10.1.2.40", inBox)
	ctx, cancel := context.WithTimeout(t.Context(), 2*nodetest.Soon)
	defer cancel()
	boot, err := guest.Boot(ctx)
	if err != nil || boot.Hostname != vm.ID || boot.Boots != 1 || boot.ConfigError != "" {
		t.Errorf("the guest is %+v, %v", boot, err)
	}
	if page, err := guest.Do(ctx, "GET", "/fetch?url="+url+"/", nil); err != nil || len(page) == 0 {
		t.Errorf("the guest gets %q from the container, %v", page, err)
	}
	if err := guest.WriteDisk(ctx, 1<<30, []byte("kept")); err != nil {
		t.Fatal(err)
	}
	if got := b.n.Status().Counters; got.VM != 1 {
		t.Errorf("counted are %+v", got)
	}
	b.speakToVM(t, vm)

	b.n.Kill()
	if again, err := guest.Boot(ctx); err != nil || again.Boots != 1 {
		t.Errorf("without an agent the guest is %+v, %v", again, err)
	}
	b.n.Start()
	b.n.WaitReady()
	b.deployed(3)
	if again, err := guest.Boot(ctx); err != nil || again.Boots != 1 || again.UptimeSeconds < boot.UptimeSeconds {
		t.Errorf("after the agent's kill the guest is %+v, %v", again, err)
	}

	if err := guest.Post(ctx, "/crash?how=off", nil); err != nil {
		t.Fatal(err)
	}
	b.bootsAgain(ctx, guest, 2)
	if kept, err := guest.ReadDisk(ctx, 1<<30, 4); err != nil || string(kept) != "kept" {
		t.Errorf("after a crash the disk has %q, %v", kept, err)
	}
	b.leave()
	b.n.Stop()
	b.n.Reboot()
	b.n.Start()
	b.n.WaitReady()
	inBox = netns.OfProcess(b.n.WaitRunning(box).PID)
	guest = vmguest.NewClient(inBox, "10.1.2.40")
	b.bootsAgain(ctx, guest, 3)
	if kept, err := guest.ReadDisk(ctx, 1<<30, 4); err != nil || string(kept) != "kept" {
		t.Errorf("after a reboot the disk has %q, %v", kept, err)
	}
	b.secretIsNowhere()
	b.gone(vm)
	b.gone(box)
	b.nothing(before)
}

// speakToVM: the user sees the guest's report and its output, and types on its console; nobody else does.
func (b *boxes) speakToVM(t *testing.T, vm *workload.Reservation) {
	t.Helper()
	for way, d := range ways(t, b.World, b.n, b.User) {
		s, err := reached(t, b.World, d).Status(t.Context(), vm.ID)
		if err != nil || s.VM == nil || s.VM.State != node.VMRunning || s.VM.Guest != nocloud.Ready || len(s.VM.LastLog) != 0 {
			t.Errorf("%s: the status is %+v, %v", way, s, err)
		}
		told := ""
		err = reached(t, b.World, d).Logs(t.Context(), vm.ID, nodeapi.LogOptions{Tail: -1}, func(l nodeapi.LogLine) error {
			told += l.Text + "\n"
			return nil
		})
		if err != nil || !strings.Contains(told, "guest ready "+vm.ID) {
			t.Errorf("%s: the console said %q, %v", way, told, err)
		}
		if _, err := reached(t, b.World, d).Stats(t.Context(), vm.ID); err != nil {
			t.Errorf("%s: its use: %v", way, err)
		}
		b.typeOn(t, d, vm)
		_, err = reached(t, b.World, d).Exec(t.Context(), vm.ID, nodeapi.ExecOptions{Args: []string{"sh"}}, nodeapi.ExecIO{})
		if node.KindOf(err) != node.Invalid {
			t.Errorf("%s: a command in a VM: %v", way, err)
		}
	}
	stranger, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	for way, d := range ways(t, b.World, b.n, stranger) {
		_, err := reached(t, b.World, d).Exec(t.Context(), vm.ID, nodeapi.ExecOptions{Terminal: true}, nodeapi.ExecIO{})
		if node.KindOf(err) != node.NotExist {
			t.Errorf("%s: a stranger opens the console: %v", way, err)
		}
	}
}

// typeOn types on the console until the guest answers, and leaves it.
func (b *boxes) typeOn(t *testing.T, d nodeapi.Dialer, vm *workload.Reservation) {
	t.Helper()
	stdin, keys := io.Pipe()
	answer := &answered{wanted: "pong", found: make(chan struct{})}
	done, conn := make(chan error, 1), reached(t, b.World, d)
	go func() {
		_, err := conn.Exec(t.Context(), vm.ID, nodeapi.ExecOptions{Terminal: true}, nodeapi.ExecIO{Stdin: stdin, Stdout: answer})
		done <- err
	}()
	go func() { _, _ = io.WriteString(keys, "ping\n") }()
	select {
	case <-answer.found:
	case err := <-done:
		t.Fatalf("the console ended: %v", err)
	case <-time.After(nodetest.Soon):
		t.Error("the console doesn't answer")
	}
	_ = keys.Close()
	if err := <-done; err != nil {
		t.Errorf("the console ended with %v", err)
	}
}

// answered closes found when it was written what is wanted.
type answered struct {
	wanted string
	found  chan struct{}
	text   string
}

// Write implements io.Writer.
func (a *answered) Write(p []byte) (int, error) {
	before := strings.Contains(a.text, a.wanted)
	if a.text += string(p); !before && strings.Contains(a.text, a.wanted) {
		close(a.found)
	}
	return len(p), nil
}

// deployed waits until the node has that many workloads, and no other.
func (b *boxes) deployed(count int) {
	b.Helper()
	b.Until(nodetest.Soon, fmt.Sprintf("%d workloads are deployed", count), func() bool {
		s := b.n.Status()
		for _, w := range s.Workloads {
			if w.Phase != "deployed" {
				return false
			}
		}
		return len(s.Workloads) == count && len(s.Orphans) == 0
	})
}

// bootsAgain waits until a guest is in its boot of that number.
func (b *boxes) bootsAgain(ctx context.Context, guest *vmguest.Client, number int) {
	b.Helper()
	b.Until(nodetest.Soon, fmt.Sprintf("boot number %d of the guest", number), func() bool {
		attempt, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		boot, err := guest.Boot(attempt)
		return err == nil && boot.Boots == number
	})
}

// secretIsNowhere: the cluster's secret is in no log, and in no process' command line.
func (b *boxes) secretIsNowhere() {
	b.Helper()
	files, err := filepath.Glob(filepath.Join(b.n.StateDir(), "logs", "*", "*"))
	if err != nil {
		b.Fatal(err)
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		b.Fatal(err)
	}
	for _, path := range append(append(files, lines...), b.n.Log) {
		if raw, err := os.ReadFile(path); err == nil && strings.Contains(string(raw), nodetest.ClusterSecret) {
			b.Errorf("%s has the cluster's secret", path)
		}
	}
}

// TestAVMAndItsNeighbours: VMs and members reach each other on one node and through a tunnel, and a guest that sends as
// another is heard by nobody.
func TestAVMAndItsNeighbours(t *testing.T) {
	i := newInternet(t)
	args := append(i.VMImage(), "--pool-size", "12GiB", "--cpu-overcommit", "8")
	one, _ := i.node("n1", "203.0.113.11", args...)
	two, _ := i.node("n2", "203.0.113.12", args...)
	parts := []*nodetest.Part{i.Part(one, "10.1.1.0/24", 3001, "203.0.113.11:3001"), i.Part(two, "10.1.2.0/24", 3002, "203.0.113.12:3002")}
	for _, r := range i.Networks(i.User, "net1", parts...) {
		i.Result(i.Push(r), workload.StateOK)
	}
	id := nodetest.NetworkID(i.User, "net1")
	near := one.Join(node.MemberSpec{Network: id, Member: "900001-1"})
	far := two.Join(node.MemberSpec{Network: id, Member: "900002-1"})
	first, second := i.Push(i.Kubernetes(one, "10.1.1.40")), i.Push(i.Kubernetes(two, "10.1.2.40"))
	i.KubernetesResult(first)
	i.KubernetesResult(second)
	i.Booted(near.Path(), "10.1.1.40")
	i.Booted(near.Path(), "10.1.2.40")
	// From the other node: the member hears none of what the guest is told to send.
	guest, _ := i.Booted(far.Path(), "10.1.1.40")
	ctx, cancel := context.WithTimeout(t.Context(), nodetest.Soon)
	defer cancel()
	if name, err := guest.Do(ctx, "GET", "/fetch?url=http://10.1.2.40/", nil); err != nil || strings.TrimSpace(string(name)) != second.ID {
		t.Errorf("the guest of %s gets %q from that of %s, %v", first.ID, name, second.ID, err)
	}
	_, taps := one.Modules()
	all, err := taps.List(t.Context())
	if err != nil || len(all) != 1 || all[0].Drift != "" {
		t.Fatalf("the taps are %+v, %v", all, err)
	}
	wire := frames.NewWire(t, func(f func()) {
		if err := netns.Do(near.Path(), func() error { f(); return nil }); err != nil {
			t.Error(err)
		}
	}, "eth0")
	forged := frames.Ether(frames.Everybody, all[0].MAC, unix.ETH_P_IP, frames.UDP4("10.1.1.41", near.IPv4, 1000, 1001, "forged"))
	own := frames.Ether(frames.Everybody, all[0].MAC, unix.ETH_P_IP, frames.UDP4("10.1.1.40", near.IPv4, 1000, 1001, "its own"))
	for _, f := range [][]byte{forged, own} {
		if err := guest.Post(ctx, "/send?interface=eth0", f); err != nil {
			t.Fatal(err)
		}
	}
	heard := false
	if !wire.Receive(nodetest.Soon, func(f []byte) bool {
		heard = heard || strings.Contains(string(f), "forged")
		return strings.Contains(string(f), "its own")
	}) {
		t.Error("the member doesn't hear the guest")
	}
	if heard {
		t.Error("the guest sends as another address")
	}
	i.Delete(first)
	i.Delete(second)
	i.Result(first, workload.StateDeleted)
	i.Result(second, workload.StateDeleted)
}

// TestVMsThatCannotBe: what there is no room for, and what a node doesn't have, is refused.
func TestVMsThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		why  string
	}{
		"without room":     {nil, "not enough SSD space"},
		"without an image": {[]string{"--pool-size", "24GiB"}, "this node runs no Kubernetes VMs"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBoxes(t, c.args...)
			before := b.n.Left()
			if why := b.refusal(b.Kubernetes(b.n, "10.1.2.40")); !strings.Contains(why, c.why) {
				b.Errorf("refused: %s", why)
			}
			b.nothing(before)
		})
	}
}
