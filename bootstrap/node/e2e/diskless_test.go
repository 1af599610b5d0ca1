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
		raw[i] = byte('a' + rand.IntN(26)) //nolint:gosec // content of a test
	}
	if _, err := st.p.ask(http.MethodPut, "/write?path=/stored", string(raw)); err != nil {
		st.Fatal(err)
	}
	st.n.hand.sync()
	p, _ := st.n.hand.the("server")
	group := strings.TrimSpace(strings.TrimPrefix(st.n.hand.file("/proc/"+strconv.Itoa(p.PID)+"/cgroup"), "0::"))
	stat := st.n.hand.file("/sys/fs/cgroup" + group + "/memory.stat")
	for line := range strings.Lines(stat) {
		text, ok := strings.CutPrefix(line, "shmem ")
		if !ok {
			continue
		}
		if used, err := strconv.Atoi(strings.TrimSpace(text)); err != nil || used >= stored/2 {
			st.Errorf("of %d bytes that the container has written, %s are in its own memory (%v)", stored, strings.TrimSpace(text), err)
		}
		return
	}
	st.Errorf("the memory of control group %s isn't known: %q", group, stat)
}
