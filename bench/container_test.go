package bench

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/workload"
)

// boxes is a node with a user's network, for containers.
func boxes(b *testing.B) (*nodetest.Internet, *nodetest.Node) {
	b.Helper()
	bins, err := nodetest.Build(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	i := nodetest.NewInternet(b, bins, "--key-rate", "0", "--address-rate", "0")
	n, _ := i.Plug("n1", "203.0.113.11", "--heartbeat", "1m", "--poll-wait", "30s", "--container-layer", "32MiB", "--cpu-overcommit", "100", "--log-level", "info")
	// With the mode of /run on a machine.
	for _, dir := range []string{n.RunDir(), i.Path("ctr"), i.Path("podman", "run")} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			b.Fatal(err)
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0711"); err != nil {
			b.Fatal(err)
		}
	}
	n.Start()
	n.WaitReady()
	n.WaitRegistered()
	i.Result(i.Push(i.Networks(i.User, "net1", i.Part(n, "10.1.2.0/24", 3001, ""))[0]), workload.StateOK)
	return i, n
}

// box is a reservation of the k-th container.
func box(i *nodetest.Internet, n *nodetest.Node, k int) *workload.Reservation {
	return i.Container(n, func(c *workload.Container) {
		c.Network.IPs = []net.IP{net.IPv4(10, 1, 2, byte(10+k)).To4()}
	})
}

// namespaceOf is the file of the network namespace of r's container.
func namespaceOf(n *nodetest.Node, r *workload.Reservation) string {
	return filepath.Join(n.RunDir(), "container", r.ID, "net")
}

// answers waits until the server in a network namespace answers.
func answers(b *testing.B, i *nodetest.Internet, namespace string) {
	b.Helper()
	const limit = time.Minute
	listened := make(chan error, 1)
	go func() { listened <- listens(namespace, limit) }()
	if err := <-listened; err != nil {
		b.Fatalf("nobody listens in %s: %v", namespace, err)
	}
	if _, err := i.Get(namespace, "http://127.0.0.1:8080/", limit); err != nil {
		b.Fatalf("nobody answers in %s: %v", namespace, err)
	}
}

// listens waits until a server listens in a network namespace, which may not exist yet. It tries each
// millisecond, from one thread that stays inside: polling by HTTP would take much processor time from
// the container being started. The thread ends with the goroutine.
func listens(namespace string, limit time.Duration) error {
	const pause = time.Millisecond
	runtime.LockOSThread()
	at := &unix.SockaddrInet4{Port: 8080, Addr: [4]byte{127, 0, 0, 1}}
	var err error
	inside := false
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(pause) {
		if !inside {
			inside = enter(namespace) == nil
			continue
		}
		if err = connect(at); err == nil {
			return nil
		}
	}
	return fmt.Errorf("not within %s: %w", limit, err)
}

// enter moves the thread into a network namespace.
func enter(namespace string) error {
	f, err := os.Open(namespace)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
}

// connect connects from the thread's network namespace, and disconnects.
func connect(at unix.Sockaddr) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, at)
}

// told matches a line of the node's log with the time that containerd took.
var told = regexp.MustCompile(`"id":"([^"]+)".*"containerd":([0-9.]+)`)

// inContainerd is each container's share of time in containerd and runc, from the node's log.
func inContainerd(b *testing.B, n *nodetest.Node) map[string]time.Duration {
	b.Helper()
	took := map[string]time.Duration{}
	for _, found := range told.FindAllStringSubmatch(n.Output(), -1) {
		ms, err := strconv.ParseFloat(found[2], 64)
		if err != nil {
			b.Fatal(err)
		}
		took[found[1]] += time.Duration(ms * float64(time.Millisecond))
	}
	return took
}

// BenchmarkContainerStart measures a container from its push to its first answer, in turns with ctr and
// podman. The network namespaces of these are made beforehand, croft's is not.
func BenchmarkContainerStart(b *testing.B) {
	const rounds, ours = 30, 40 * time.Millisecond
	for b.Loop() {
		i, n := boxes(b)
		ctr, podman := newCtr(b, i, n), newPodman(b, i)
		var whole, result, apart, rest, bare, pod []time.Duration
		var ids []string
		// One container stays, so that its image stays present.
		i.Result(i.Push(box(i, n, rounds)), workload.StateOK)
		ctr.round(rounds)
		podman.round(rounds)
		for k := range rounds {
			r := box(i, n, k)
			began := time.Now()
			i.Push(r)
			answers(b, i, namespaceOf(n, r))
			took := time.Since(began)
			i.Result(r, workload.StateOK)
			acknowledged := time.Since(began)
			i.Delete(r)
			i.Result(r, workload.StateDeleted)
			tookCtr, tookPodman := ctr.round(k), podman.round(k)
			ids = append(ids, r.ID)
			whole, result = append(whole, took), append(result, acknowledged)
			bare, pod = append(bare, tookCtr), append(pod, tookPodman)
			apart = append(apart, took-tookCtr)
		}
		within := inContainerd(b, n)
		for k, id := range ids {
			if within[id] == 0 {
				b.Fatalf("the log doesn't tell what containerd took for %s", id)
			}
			rest = append(rest, whole[k]-within[id])
		}
		b.Logf("push to result: %s", spread(result))
		p50, reference := middle(whole), middle(bare)
		report(b, "container, push to HTTP, against ctr run -d", "<= 1.5 x ctr", spread(whole)+" of "+spread(bare), float64(p50)/float64(reference))
		report(b, "container, push to HTTP, more than ctr run -d", "<= 40 ms", spread(apart), float64(middle(apart))/float64(ours))
		b.Logf("push to HTTP, without what containerd took: %s", spread(rest))
		report(b, "container, push to HTTP, against podman", "none: told", spread(whole)+" of "+spread(pod), float64(p50)/float64(middle(pod)))
	}
}

// spread formats the median and the slow end.
func spread(all []time.Duration) string {
	all = slices.Clone(all)
	slices.Sort(all)
	return fmt.Sprintf("p50 %.0f, p95 %.0f ms", ms(quantile(all, 0.5)), ms(quantile(all, 0.95)))
}

// atOnce is how many reference containers are started concurrently.
const atOnce = 4

// several runs f(from) to f(to-1), four at a time, and returns the total time.
func several(from, to int, f func(k int)) time.Duration {
	began := time.Now()
	var next atomic.Int64
	next.Store(int64(from))
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for k := int(next.Add(1)) - 1; k < to; k = int(next.Add(1)) - 1 {
				f(k)
			}
		})
	}
	all.Wait()
	return time.Since(began)
}

// BenchmarkContainersInARow measures containers that are pushed one after the other without waiting,
// until the last has its result, in turns with as many ctr run -d, four at a time.
func BenchmarkContainersInARow(b *testing.B) {
	const row, turns = 50, 3
	for b.Loop() {
		i, n := boxes(b)
		ctr := newCtr(b, i, n)
		ctr.round(0)
		// So that the image is present for the others.
		i.Result(i.Push(box(i, n, row)), workload.StateOK)
		var ours, theirs, ratios []float64
		for range turns {
			took, all := pushAll(i, n, 0, row)
			for _, r := range all {
				answers(b, i, namespaceOf(n, r))
			}
			for _, r := range all {
				i.Delete(r)
			}
			for _, r := range all {
				i.Result(r, workload.StateDeleted)
			}
			reference := several(0, row, ctr.run)
			several(0, row, ctr.remove)
			b.Logf("%d in a row: %.1f s; ctr run -d, %d at a time: %.1f s", row, took.Seconds(), atOnce, reference.Seconds())
			ours, theirs = append(ours, row/took.Seconds()), append(theirs, row/reference.Seconds())
			ratios = append(ratios, reference.Seconds()/took.Seconds())
		}
		slices.Sort(ours)
		slices.Sort(theirs)
		slices.Sort(ratios)
		report(b, "containers of 50 in a row, against ctr run -d, 4 at a time", ">= 0.8 x ctr",
			fmt.Sprintf("%.1f/s of %.1f/s (ratios %.2f)", ours[turns/2], theirs[turns/2], ratios), ratios[turns/2])
	}
}

// pushAll pushes containers without waiting, and returns them and the time until the last had its
// result. It polls rarely until then: the explorer's answers take processor time that the containers
// need.
func pushAll(i *nodetest.Internet, n *nodetest.Node, from, to int) (time.Duration, []*workload.Reservation) {
	var all []*workload.Reservation
	began := time.Now()
	for k := from; k < to; k++ {
		all = append(all, i.Push(box(i, n, k)))
	}
	const limit, pause = 2 * time.Minute, 50 * time.Millisecond
	for last := all[len(all)-1]; time.Since(began) < limit; time.Sleep(pause) {
		if got, err := i.Client.Get(i.Context(), last.ID); err == nil && got.Result != nil {
			break
		}
	}
	for _, r := range all {
		i.Result(r, workload.StateOK)
	}
	return time.Since(began), all
}

// BenchmarkContainers100 measures memory with no containers and with 100, and a
// restart by SIGKILL with all of them.
func BenchmarkContainers100(b *testing.B) {
	const containers = 100
	for b.Loop() {
		i, n := boxes(b)
		idle := anonymous(b, n.PID())
		report(b, "agent memory, containers offered (RssAnon)", "<= 40 MB", fmt.Sprintf("%.1f MB", idle), idle/40)
		// So that the image is present for the others.
		all := []*workload.Reservation{i.Push(box(i, n, 0))}
		i.Result(all[0], workload.StateOK)
		_, others := pushAll(i, n, 1, containers)
		all = append(all, others...)
		memory100(b, n)
		restart100(b, i, n, all)
	}
}

func memory100(b *testing.B, n *nodetest.Node) {
	b.Helper()
	agent, logs, wg, daemon := anonymous(b, n.PID()), anonymous(b, n.LogCarrier()), anonymous(b, n.Carrier()), anonymous(b, n.Containerd())
	report(b, "agent memory, 100 containers (RssAnon)", "<= 80 MB", fmt.Sprintf("%.1f MB", agent), agent/80)
	report(b, "log carrier memory, 100 containers (RssAnon)", "<= 30 MB a carrier", fmt.Sprintf("%.1f MB", logs), logs/30)
	report(b, "wg carrier memory, 100 containers (RssAnon)", "<= 30 MB a carrier", fmt.Sprintf("%.1f MB", wg), wg/30)
	b.Logf("containerd's memory with 100 containers (RssAnon): %.1f MB", daemon)
	cpu := cpuSeconds(b, n.PID())
	time.Sleep(30 * time.Second)
	idle := (cpuSeconds(b, n.PID()) - cpu) / 30 * 100
	report(b, "agent, idle with 100 containers", "<= 0.5 % of a core", fmt.Sprintf("%.2f %%", idle), idle/0.5)
}

// restart100 kills the agent, and checks the state after a restart.
func restart100(b *testing.B, i *nodetest.Internet, n *nodetest.Node, all []*workload.Reservation) {
	b.Helper()
	before := map[string]uint64{}
	for _, c := range n.Status().Containers {
		before[c.ID] = c.PID
	}
	n.Kill()
	began := time.Now()
	n.Start()
	i.Until(2*time.Minute, "all are adopted", func() bool { s, err := n.TryStatus(); return err == nil && s.Adopted })
	took := time.Since(began)
	s := n.Status()
	made, restarts := 0, uint64(0)
	for _, c := range s.Containers {
		restarts += c.Restarts
		if c.PID == 0 || before[c.ID] != c.PID {
			made++
		}
	}
	if made != 0 || restarts != 0 || len(before) != len(all) || len(s.Containers) != len(all) {
		b.Errorf("after the restart %d of %d containers are others, %d restarts, %d containers were there", made, len(s.Containers), restarts, len(before))
	}
	report(b, "restart with 100 containers, all adopted", "none: told", fmt.Sprintf("%.2f s, %d restarts", took.Seconds(), restarts), float64(restarts))
	again := anonymous(b, n.PID())
	report(b, "agent memory, 100 adopted (RssAnon)", "<= 80 MB", fmt.Sprintf("%.1f MB", again), again/80)
}
