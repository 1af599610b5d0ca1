package bench

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	wg "github.com/croft-edge/croft/modules/network/carrier"
	"github.com/croft-edge/croft/pkg/logs"
)

// ceilings are the maximum memory of all processes of a kind together, in MiB, as docs/security.md
// states them for a node. Kinds without one are only printed: a shim has some 12 MiB a container.
func ceilings() map[string]int64 {
	return map[string]int64{
		"croftd run":         768,
		"croftd door":        384,
		"croftd carrier wg":  wg.DefaultHardLimit >> 20,
		"croftd carrier log": logs.DefaultHardLimit >> 20,
		// As many as may run at once, 512 MiB each.
		"croftd unpack": 3 * 512,
		"containerd":    512,
		"zdb":           1024,
		// An eighth of its limit, which is for 50,000 nodes.
		"explorer": 512,
	}
}

// memory records the memory of croft's processes.
type memory struct {
	// dir is the world's folder.
	dir  string
	stop func()

	mu      sync.Mutex
	largest map[string]int64
}

func newMemory(i *nodetest.Internet) *memory {
	return &memory{dir: i.Dir, largest: map[string]int64{}}
}

// start measures each second, until stop.
func (m *memory) start(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	m.stop = func() { cancel(); <-done }
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			m.look()
			sleep(ctx, time.Second)
		}
	}()
}

// look records the current memory of each kind's processes together, and the peak of a single one,
// which the kernel records.
func (m *memory) look() {
	processes, _ := filepath.Glob("/proc/[0-9]*")
	now, peak := map[string]int64{}, map[string]int64{}
	for _, dir := range processes {
		kind := m.kind(dir)
		if kind == "" {
			continue
		}
		has, had := resident(dir)
		now[kind] += has
		peak[kind] = max(peak[kind], had)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for kind := range now {
		m.largest[kind] = max(m.largest[kind], now[kind], peak[kind])
	}
}

// kind is a process's role in croft; empty when it isn't this node's or explorer's, or is a user's.
func (m *memory) kind(dir string) string {
	program, err := os.Readlink(filepath.Join(dir, "exe"))
	name := filepath.Base(program)
	shim := strings.HasPrefix(name, "containerd-shim")
	if err != nil || !shim && !slices.Contains([]string{"croftd", "containerd", "zdb", "explorer"}, name) || !m.ours(dir, 4) {
		return ""
	}
	words := commandLine(dir)
	if name == "croftd" && len(words) > 1 {
		return strings.Join(append([]string{name}, words[1:min(len(words), 1+depth(words[1]))]...), " ")
	}
	return name
}

// ours is whether a process, or one of its ancestors, has the world's folder in its arguments.
func (m *memory) ours(dir string, generations int) bool {
	if strings.Contains(strings.Join(commandLine(dir), " "), m.dir+"/") {
		return true
	}
	raw, err := os.ReadFile(filepath.Join(dir, "status"))
	parent := regexp.MustCompile(`PPid:\s+(\d+)`).FindSubmatch(raw)
	return err == nil && parent != nil && generations > 0 && m.ours(filepath.Join("/proc", string(parent[1])), generations-1)
}

func commandLine(dir string) []string {
	raw, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimRight(string(raw), "\x00"), "\x00")
}

// depth is how many words make up a croftd command.
func depth(command string) int {
	if command == "carrier" {
		return 2
	}
	return 1
}

// judge prints the peaks, and fails where one exceeds its limit.
func (m *memory) judge(b *testing.B) {
	b.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	limits := ceilings()
	for _, kind := range slices.Sorted(maps.Keys(m.largest)) {
		size, limit := m.largest[kind]>>20, limits[kind]
		if limit == 0 {
			fmt.Printf("MEMORY %-24s at most %4d MiB under attack\n", kind, size)
			continue
		}
		fmt.Printf("MEMORY %-24s at most %4d MiB under attack, ceiling %4d MiB\n", kind, size, limit)
		if size > limit {
			b.Errorf("%s had %d MiB of memory, its ceiling is %d", kind, size, limit)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(limits)) {
		if _, seen := m.largest[kind]; !seen && kind != "croftd unpack" {
			b.Errorf("no process of %s was seen: its memory isn't known", kind)
		}
	}
}

// resident is a process's resident memory now and at its peak, in bytes; 0 when it has gone.
func resident(dir string) (now, most int64) {
	raw, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return 0, 0
	}
	kilobytes := func(name string) int64 {
		found := regexp.MustCompile(name + `:\s+(\d+) kB`).FindSubmatch(raw)
		if found == nil {
			return 0
		}
		n, _ := strconv.ParseInt(string(found[1]), 10, 64)
		return n << 10
	}
	return kilobytes("VmRSS"), kilobytes("VmHWM")
}
