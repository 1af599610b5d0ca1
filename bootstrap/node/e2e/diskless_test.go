//go:build boot

package e2e_test

import "testing"

// TestDiskless has a machine without a disk run a container from its memory, and be another node after a power cut.
func TestDiskless(t *testing.T) {
	s := newSite(t)
	st := newStory(s, options{boot: direct(t), diskless: true})
	st.begin()
	st.n.m.Until(patience, "NO DISK: this node runs from memory")
	st.n.settled(map[string]int64{"network": 1, "container": 1})
	st.n.m.Cut(st.random)
	st.n.m.PowerOn()
	st.n.register() // with another ID: it waits for a node that the explorer doesn't know
	st.n.settled(nil)
	st.n.m.PowerButton(patience)
}
