package main_test

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/workload"
)

// stranger is a thing that isn't croft's, and has the place that a workload needs.
type stranger struct {
	what string
	// put puts it there, for the workload of that ID. look is all that can be seen of it, away takes it away.
	put  func(id string)
	look func(id string) string
	away func(id string)
}

// strangers are a node with workloads of all types that have something on it.
type strangers struct {
	*zdbs
	last string
}

func newStrangers(t *testing.T) *strangers {
	t.Helper()
	b := newVMs(t, "--zdb-memory", "256MiB")
	return &strangers{zdbs: (&zdbs{b}).sixth(), last: b.net.ID}
}

// push pushes a reservation.
func (s *strangers) push(r *workload.Reservation) *workload.Reservation {
	s.Helper()
	s.last = s.Push(r).ID
	return r
}

// next is the ID of the next reservation.
func (s *strangers) next() string {
	s.Helper()
	number, rest, _ := strings.Cut(s.last, "-")
	n, err := strconv.Atoi(number)
	if err != nil {
		s.Fatal(err)
	}
	return fmt.Sprint(n+1, "-", rest)
}

// box is a reservation for a container with that address.
func (s *strangers) box(ip byte) *workload.Reservation {
	s.Helper()
	return s.Container(s.n, func(c *workload.Container) { c.Network.IPs = []net.IP{net.IPv4(10, 1, 2, ip).To4()} })
}

// folder is a stranger's folder at a path, which has ID in the place of the workload's ID.
func (s *strangers) folder(what string, path ...string) stranger {
	at := func(id string) string {
		return strings.ReplaceAll(filepath.Join(append([]string{s.n.RunDir()}, path...)...), "ID", id)
	}
	return stranger{
		what: what,
		put:  func(id string) { s.strange(at(id)) },
		look: func(id string) string { return s.tree(at(id)) },
		away: func(id string) { s.drop(at(id)) },
	}
}

func (s *strangers) strange(path string) {
	s.Helper()
	if err := os.MkdirAll(filepath.Join(path, "deep"), 0o750); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, "deep", "notes"), []byte("somebody's"), 0o640); err != nil {
		s.Fatal(err)
	}
}

func (s *strangers) drop(path string) {
	s.Helper()
	if err := os.RemoveAll(path); err != nil {
		s.Fatal(err)
	}
}

// tree is all that can be seen of a folder. The time of an inode's last change tells of changed modes, owners and attributes too.
func (s *strangers) tree(path string) string {
	s.Helper()
	var out strings.Builder
	err := filepath.WalkDir(path, func(at string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(at, &st); err != nil {
			return err
		}
		fmt.Fprintln(&out, at, st.Ino, st.Mode, st.Uid, st.Size, st.Mtim, st.Ctim)
		if !e.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(at)
		fmt.Fprintf(&out, "%q\n", content)
		return err
	})
	if err != nil {
		fmt.Fprintln(&out, err)
	}
	return out.String()
}

// namespace is a stranger's network namespace in the place of the user's network of that name.
func (s *strangers) namespace(network string) stranger {
	path := filepath.Join(s.n.RunDir(), "network", "netns", nodetest.NetworkID(s.User, network))
	return stranger{
		what: "a network namespace",
		put: func(string) {
			if err := netns.Make(path); err != nil {
				s.Fatal(err)
			}
			s.inside(path, "ip link add strange0 type bridge")
		},
		look: func(string) string {
			inode, err := netns.Inode(path)
			if err != nil {
				return err.Error()
			}
			return fmt.Sprintln(inode, s.inside(path, "ip -d -o addr"), s.inside(path, "nft list ruleset"), s.inside(path, "cat /proc/sys/net/ipv4/ip_forward"))
		},
		away: func(string) {
			if err := netns.Remove(path); err != nil {
				s.Fatal(err)
			}
		},
	}
}

// inside is the output of a command in a network namespace.
func (s *strangers) inside(namespace, command string) string {
	s.Helper()
	out, err := nodetest.Command(namespace, strings.Fields(command)...)
	if err != nil {
		s.Fatalf("%s: %v: %s", command, err, out)
	}
	return string(out)
}

// told waits until the node has told that something has the place of a reservation.
func (s *strangers) told(r *workload.Reservation) {
	s.Helper()
	object := string(r.Type) + "/" + r.ID
	s.Until(nodetest.Soon, "the event "+work.ReasonErrResourceExists+" of "+object, func() bool {
		for line := range strings.Lines(events(s.World, s.n)) {
			if strings.Contains(line, work.ReasonErrResourceExists) && strings.Contains(line, object+" ") {
				return true
			}
		}
		return false
	})
}

// TestWhatExistsAndIsNotOursStays: where something that isn't croft's has the place of a new workload, the workload fails for that one
// reason, and the thing stays as it is. Once it is gone, a workload has the place.
func TestWhatExistsAndIsNotOursStays(t *testing.T) {
	s := newStrangers(t)
	there := s.push(s.box(10)) // its user has a namespace in containerd
	s.ContainerResult(there)
	second := s.Part(s.n, "10.2.2.0/24", 3002, "")
	second.IPRange = "10.2.0.0/16"
	for _, c := range []struct {
		stranger
		want func() *workload.Reservation
		// again is whether the next reservation needs the same place.
		again bool
	}{
		{s.folder("a folder in the place of a volume", "pools", "ssd0", "volumes", "ID"), func() *workload.Reservation { return s.Volume(s.n.ID, 1, time.Hour) }, false},
		{stranger{
			what: "a container of containerd", put: func(id string) { s.n.MakeForeign(there, id) }, look: s.n.InContainerd,
			away: func(id string) { s.n.DeleteContainer(&workload.Reservation{ID: id}) },
		}, func() *workload.Reservation { return s.box(11) }, false},
		{s.folder("a folder in the place of a container's layer", "pools", "ssd0", "volumes", "ID.layer"), func() *workload.Reservation { return s.box(12) }, false},
		{s.namespace("net2"), func() *workload.Reservation { return s.Networks(s.User, "net2", second)[0] }, true},
		{s.folder("a folder in the place of a zdb's data", "pools", "ssd0", "volumes", userZDB), func() *workload.Reservation { return s.ZDB(s.n, nil) }, true},
		{s.folder("a folder in the place of a VM's disk", "pools", "ssd0", "vdisks", "ID"), func() *workload.Reservation { return s.Kubernetes(s.n, "10.1.2.40") }, false},
		{s.folder("a folder in the place of a VM's files", "vm", "ID"), func() *workload.Reservation { return s.Kubernetes(s.n, "10.1.2.41") }, false},
	} {
		id := s.next()
		c.put(id)
		before := c.look(id)
		r := s.push(c.want())
		if r.ID != id {
			t.Fatalf("%s: the reservation is %s, want %s", c.what, r.ID, id)
		}
		result := s.Result(r, workload.StateError)
		s.told(r)
		if after := c.look(id); after != before {
			t.Errorf("%s is now\n%s\nand was\n%s", c.what, after, before)
		}
		t.Logf("%s: %s", c.what, result.Error)
		c.away(id)
		if c.again {
			s.Result(s.push(c.want()), workload.StateOK)
		}
	}
}

// TestADeployedWorkloadWaitsForItsPlace: where something that isn't croft's has taken the place of a deployed workload, that thing stays
// as it is for as long as it is there, and the workload comes back after it.
func TestADeployedWorkloadWaitsForItsPlace(t *testing.T) {
	s := newStrangers(t)
	volume, box, vm := s.push(s.Volume(s.n.ID, 1, time.Hour)), s.push(s.box(10)), s.push(s.Kubernetes(s.n, "10.1.2.40"))
	for _, r := range []*workload.Reservation{volume, box, vm} {
		s.Result(r, workload.StateOK)
	}
	for _, c := range []struct {
		stranger
		of *workload.Reservation
	}{
		{s.swapped(), volume},
		{stranger{
			what: "a container of containerd", put: func(string) { s.n.Disown(box) }, look: s.n.InContainerd,
			away: func(string) { s.n.DeleteContainer(box) },
		}, box},
		{s.link(), s.net},
		{s.machine(), vm},
	} {
		c.put(c.of.ID)
		before := c.look(c.of.ID)
		s.told(c.of)
		if after := c.look(c.of.ID); after != before {
			t.Errorf("%s is now\n%s\nand was\n%s", c.what, after, before)
		}
		c.away(c.of.ID)
		s.boxes.deployed(4)
	}
}

// swapped is a folder that takes the place of a volume at once.
func (s *strangers) swapped() stranger {
	out := s.folder("a folder in the place of a volume", "pools", "ssd0", "volumes", "ID")
	out.put = func(id string) {
		path := filepath.Join(s.n.RunDir(), "pools", "ssd0", "volumes", id)
		aside := filepath.Join(filepath.Dir(filepath.Dir(path)), "aside")
		s.strange(aside)
		if err := unix.Renameat2(unix.AT_FDCWD, aside, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE); err != nil {
			s.Fatal(err)
		}
	}
	return out
}

// link is the link of the network in the node's own namespace, once somebody else has it.
func (s *strangers) link() stranger {
	label := "croft:" + nodetest.NetworkID(s.User, "net1")
	name := ""
	for line := range strings.Lines(s.inside(s.n.Namespace, "ip -o link")) {
		if strings.Contains(line, label) {
			name, _, _ = strings.Cut(strings.Fields(line)[1], "@")
		}
	}
	if name == "" {
		s.Fatalf("no link has the label %s", label)
	}
	return stranger{
		what: "a link",
		put:  func(string) { s.inside(s.n.Namespace, "ip link set dev "+name+" alias somebody") },
		look: func(string) string { return s.inside(s.n.Namespace, "ip -d -o addr show dev "+name) },
		away: func(string) { s.inside(s.n.Namespace, "ip link del "+name) },
	}
}

// machine is a folder in the place of a VM's files, after the VM has ended with the node.
func (s *strangers) machine() stranger {
	out := s.folder("a folder in the place of a VM's files", "vm", "ID")
	put := out.put
	out.put = func(id string) {
		s.n.Stop()
		s.n.Croftd("vm", "down")
		put(id)
		s.n.Start()
		s.n.WaitReady()
	}
	return out
}
