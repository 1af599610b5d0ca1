//go:build boot

package e2e_test

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// TestDiskless has a machine without a disk run a container from its memory, and be another node after a power cut.
func TestDiskless(t *testing.T) {
	s := newSite(t)
	st := newStory(s, options{boot: direct(t), diskless: true})
	st.begin()
	st.n.m.Until(patience, "NO DISK: this node runs from memory")
	st.n.settled(map[string]int64{"network": 1, "container": 1})
	st.storesInNodesMemory()
	st.n.m.Cut(st.random)
	st.n.m.PowerOn()
	st.n.register() // with another ID: it waits for a node that the explorer doesn't know
	st.n.settled(nil)
	st.n.m.PowerButton(patience)
}

// stored is how much storesInNodesMemory writes, in bytes.
const stored = 4 << 20

// storesInNodesMemory holds that what a container writes takes none of the container's own memory: it couldn't give it back, and would be ended for it.
func (st *story) storesInNodesMemory() {
	st.Helper()
	raw := make([]byte, stored)
	for i := range raw {
		raw[i] = byte(rand.Uint32()) // nothing that could be compressed
	}
	before := st.kept()
	if _, err := st.p.ask(http.MethodPut, "/write?path=/stored", string(raw)); err != nil {
		st.Fatal(err)
	}
	st.n.hand.sync()
	if grown := st.kept() - before; grown >= stored/2 {
		st.Errorf("of %d bytes that the container has written, %d are in its own memory", stored, grown)
	}
}

// kept is the memory of the container's control group for others than its programs that it can't give back, in bytes: of files in memory, and the kernel's.
func (st *story) kept() (sum int) {
	st.Helper()
	p, _ := st.n.hand.the("server")
	group := strings.TrimSpace(strings.TrimPrefix(st.n.hand.file("/proc/"+strconv.Itoa(p.PID)+"/cgroup"), "0::"))
	stat, found := st.n.hand.file("/sys/fs/cgroup"+group+"/memory.stat"), 0
	for line := range strings.Lines(stat) {
		if name, text, _ := strings.Cut(strings.TrimSpace(line), " "); name == "shmem" || name == "kernel" {
			bytes, err := strconv.Atoi(text)
			st.must(err)
			sum, found = sum+bytes, found+1
		}
	}
	if found != 2 {
		st.Fatalf("the memory of control group %s isn't known: %q", group, stat)
	}
	return sum
}
