package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/croft-edge/croft/explorer/store"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

func explorerMust(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// explorerNodes makes a database with n registered nodes and returns their IDs.
func explorerNodes(b *testing.B, db string, n int) []string {
	b.Helper()
	s, err := store.Open(b.Context(), store.Config{Path: db})
	explorerMust(b, err)
	ids := make([]string, n)
	var registering sync.WaitGroup
	slots := make(chan struct{}, 256)
	for i := range ids {
		key, err := sign.Generate()
		explorerMust(b, err)
		ids[i] = key.ID()
		slots <- struct{}{}
		registering.Go(func() {
			defer func() { <-slots }()
			err := s.Nodes.Update(context.Background(), store.Writer{}, ids[i], store.Edit{Create: true, Seen: time.Now(), Apply: func(*explorer.Node, bool) error { return nil }})
			if err != nil {
				b.Error(err)
			}
		})
	}
	registering.Wait()
	explorerMust(b, s.Close())
	return ids
}

// explorerProcess runs the real binary on that database and returns its URL and process ID.
func explorerProcess(b *testing.B, db string) (string, int) {
	b.Helper()
	bin := filepath.Join(b.TempDir(), "explorer")
	if out, err := exec.Command("go", "build", "-o", bin, "../cmd/explorer").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(bin, "--listen", "127.0.0.1:0", "--db", db, "--key-rate", "0", "--address-rate", "0", "--max-wait", "10m")
	out, err := cmd.StdoutPipe()
	explorerMust(b, err)
	cmd.Stderr = os.Stderr
	explorerMust(b, cmd.Start())
	b.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // so that it removes its control group
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	explorerMust(b, err)
	return strings.TrimPrefix(strings.TrimSpace(line), "listening on "), cmd.Process.Pid
}

// explorerPushes are signed documents, ready to send.
func explorerPushes(b *testing.B, nodes []string, n int) ([][]byte, []*workload.Reservation) {
	b.Helper()
	key, err := sign.Generate()
	explorerMust(b, err)
	bodies, docs := make([][]byte, n), make([]*workload.Reservation, n)
	for i := range n {
		r := &workload.Reservation{NodeID: nodes[i%len(nodes)], Type: workload.TypeVolume, Data: json.RawMessage(`{"size":1,"type":"SSD"}`), Created: time.Now().UTC(), Duration: time.Hour}
		explorerMust(b, r.Sign(key.Private()))
		bodies[i], err = workload.Encode(r)
		explorerMust(b, err)
		docs[i] = r
	}
	return bodies, docs
}

func explorerClient(b *testing.B, url string) *explorer.Client {
	b.Helper()
	c, err := explorer.NewClient(explorer.Config{URL: url, Transport: &http.Transport{MaxIdleConnsPerHost: 256}})
	explorerMust(b, err)
	b.Cleanup(c.Close)
	return c
}

// fsyncRate is how many of these bodies the disk takes a second, each made durable before the next.
func fsyncRate(b *testing.B, bodies [][]byte) float64 {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "fsync"))
	explorerMust(b, err)
	defer f.Close()
	start := time.Now()
	for _, body := range bodies {
		_, err := f.Write(body)
		explorerMust(b, err)
		explorerMust(b, f.Sync())
	}
	return float64(len(bodies)) / time.Since(start).Seconds()
}

func BenchmarkExplorerDurablePosts(b *testing.B) {
	const posts, clients = 4000, 128
	for b.Loop() {
		db := filepath.Join(b.TempDir(), "explorer.db")
		nodes := explorerNodes(b, db, 100)
		url, _ := explorerProcess(b, db)
		bodies, docs := explorerPushes(b, nodes, posts)
		before := fsyncRate(b, bodies[:400])
		c := explorerClient(b, url)
		todo := make(chan int)
		var pushing sync.WaitGroup
		start := time.Now()
		for range clients {
			pushing.Go(func() {
				for i := range todo {
					if _, err := c.ReserveRaw(context.Background(), docs[i].NodeID, bodies[i]); err != nil {
						b.Error(err)
					}
				}
			})
		}
		for i := range posts {
			todo <- i
		}
		close(todo)
		pushing.Wait()
		rate := posts / time.Since(start).Seconds()
		disk := (before + fsyncRate(b, bodies[:400])) / 2
		report(b, "explorer: durable POST/s, 128 clients", fmt.Sprintf("disk: %.0f fsync'd writes/s", disk), fmt.Sprintf("%.0f POST/s", rate), rate/disk)
	}
}

func BenchmarkExplorerPollOf10000(b *testing.B) {
	const n = 10000
	for b.Loop() {
		db := filepath.Join(b.TempDir(), "explorer.db")
		nodes := explorerNodes(b, db, 1)
		bodies, docs := explorerPushes(b, nodes, n)
		s, err := store.Open(b.Context(), store.Config{Path: db})
		explorerMust(b, err)
		var pushing sync.WaitGroup
		slots := make(chan struct{}, 256)
		for i := range n {
			slots <- struct{}{}
			pushing.Go(func() {
				defer func() { <-slots }()
				hash, err := docs[i].Hash()
				if err == nil {
					_, err = s.Reservations.Reserve(context.Background(), store.Push{Reservation: docs[i], Hash: hash, Body: bodies[i]})
				}
				if err != nil {
					b.Error(err)
				}
			})
		}
		pushing.Wait()
		explorerMust(b, s.Close())
		url, _ := explorerProcess(b, db)
		pollPages(b, explorerClient(b, url), nodes[0], n)
		pollSeed(b, url, nodes[0], n)
	}
}

func pollPages(b *testing.B, c *explorer.Client, node string, n int) {
	b.Helper()
	start := time.Now()
	got := 0
	for cursor := (explorer.Cursor{}); got < n; {
		page, err := c.PollPage(b.Context(), node, cursor, 0)
		explorerMust(b, err)
		got += len(page.Reservations)
		cursor = explorer.Cursor{Epoch: page.Epoch, Change: page.Next}
	}
	took := time.Since(start)
	report(b, "explorer: poll of 10,000, in pages", "1 s", took.Round(time.Millisecond).String(), took.Seconds())
}

func pollSeed(b *testing.B, url, node string, n int) {
	b.Helper()
	start := time.Now()
	resp, err := http.Get(url + "/reservations/" + node + "/poll?from=0")
	explorerMust(b, err)
	defer resp.Body.Close()
	var all []json.RawMessage
	explorerMust(b, json.NewDecoder(resp.Body).Decode(&all))
	took := time.Since(start)
	if len(all) != n {
		b.Fatalf("the seed's poll gives %d, want %d", len(all), n)
	}
	report(b, "explorer: poll of 10,000, the seed's form", "1 s", took.Round(time.Millisecond).String(), took.Seconds())
}

// BenchmarkExplorerLongPolls holds 15,000 polls open at the real binary, from this process, and wakes
// some of them.
func BenchmarkExplorerLongPolls(b *testing.B) {
	const waiters, wakes = 15000, 400
	raiseFiles(b, waiters+2000)
	for b.Loop() {
		db := filepath.Join(b.TempDir(), "explorer.db")
		nodes := explorerNodes(b, db, waiters)
		url, pid := explorerProcess(b, db)
		c := explorerClient(b, url)
		info, err := c.Info(b.Context())
		explorerMust(b, err)
		settleMemory(b, pid)
		idle := rssAnon(b, pid)
		woken := make([]chan time.Time, waiters)
		conns := make([]net.Conn, waiters)
		for i := range waiters {
			conns[i] = dialFrom(b, strings.TrimPrefix(url, "http://"), i)
			_, err := fmt.Fprintf(conns[i], "GET /reservations/%s/poll?after=0&epoch=%s&wait=10m HTTP/1.1\r\nHost: explorer\r\nUser-Agent: croft\r\nAccept: application/json\r\n\r\n", nodes[i], info.Epoch)
			explorerMust(b, err)
			woken[i] = make(chan time.Time, 1)
			go func() {
				one := make([]byte, 64)
				if n, err := conns[i].Read(one); err == nil && strings.HasPrefix(string(one[:n]), "HTTP/1.1 200") {
					woken[i] <- time.Now()
				}
				close(woken[i])
			}()
		}
		waitForPolls(b, url, waiters)
		settleMemory(b, pid)
		each := float64(rssAnon(b, pid)-idle) / waiters / 1024
		took := wake(b, c, nodes, woken, wakes)
		slices.Sort(took)
		p50, p99 := took[len(took)/2], took[len(took)*99/100]
		for _, conn := range conns {
			_ = conn.Close()
		}
		report(b, "explorer: idle long polls of one process", "15000", strconv.Itoa(waiters), 1)
		report(b, "explorer: memory of a waiter (RssAnon)", "20 KB", fmt.Sprintf("%.1f KB", each), each/20)
		report(b, "explorer: push to woken, p99 (with the commit)", "100 ms", fmt.Sprintf("%s (p50 %s)", p99.Round(time.Microsecond), p50.Round(time.Microsecond)), p99.Seconds()/0.1)
	}
}

// wake pushes to n of the nodes, evenly spread, and measures the time until each one's poll is
// answered.
func wake(b *testing.B, c *explorer.Client, nodes []string, woken []chan time.Time, n int) []time.Duration {
	b.Helper()
	var some []string
	step := len(nodes) / n
	for i := range n {
		some = append(some, nodes[i*step])
	}
	bodies, _ := explorerPushes(b, some, n)
	var out []time.Duration
	for i := range n {
		start := time.Now()
		_, err := c.ReserveRaw(b.Context(), some[i], bodies[i])
		explorerMust(b, err)
		at, ok := <-woken[i*step]
		if !ok {
			b.Fatalf("poll %d ended without an answer", i*step)
		}
		out = append(out, at.Sub(start))
	}
	return out
}

// dialFrom spreads the connections over several loopback addresses, as each has its own ports.
func dialFrom(b *testing.B, address string, i int) net.Conn {
	b.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%4))}, Timeout: 30 * time.Second}
	conn, err := d.Dial("tcp", address)
	explorerMust(b, err)
	return conn
}

func waitForPolls(b *testing.B, url string, n int) {
	b.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	end := time.After(2 * time.Minute)
	for {
		select {
		case <-tick.C:
			if longPolls(b, url) >= n {
				return
			}
		case <-end:
			b.Fatalf("only %d polls wait", longPolls(b, url))
		}
	}
}

func longPolls(b *testing.B, url string) int {
	b.Helper()
	resp, err := http.Get(url + "/metrics")
	explorerMust(b, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	explorerMust(b, err)
	for line := range strings.Lines(string(body)) {
		if rest, ok := strings.CutPrefix(line, "croft_explorer_long_polls "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			explorerMust(b, err)
			return int(n)
		}
	}
	return 0
}

// rssAnon is a process's anonymous resident memory, in bytes.
func rssAnon(b *testing.B, pid int) int {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	explorerMust(b, err)
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kb, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			explorerMust(b, err)
			return kb * 1024
		}
	}
	b.Fatal("there is no RssAnon in /proc")
	return 0
}

// settleMemory waits until a process's memory no longer changes much, as garbage is still collected
// while it is idle.
func settleMemory(b *testing.B, pid int) {
	b.Helper()
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	last := 0
	for range 10 {
		<-tick.C
		now := rssAnon(b, pid)
		if d := now - last; d < 1<<20 && d > -1<<20 {
			return
		}
		last = now
	}
	runtime.KeepAlive(last)
}

// raiseFiles raises the limit of open files to n, for this process and its children.
func raiseFiles(b *testing.B, n uint64) {
	b.Helper()
	var limit syscall.Rlimit
	explorerMust(b, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	if limit.Cur >= n {
		return
	}
	limit.Cur, limit.Max = max(limit.Cur, n), max(limit.Max, n)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		b.Fatalf("this needs %d open files (ulimit -n): %v", n, err)
	}
}
