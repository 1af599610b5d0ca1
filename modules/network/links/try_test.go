package links

import "testing"

// This machine has all links that networks are made of, and nothing of a try stays.
func TestLinksOfThisKernel(t *testing.T) {
	for name, try := range map[string]func() error{"veth": TryVeth, "bridge": TryBridge, "tap": TryTap, "IPv6": TryIPv6} {
		for range 2 {
			if err := try(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if r, err := Open("", Look); err == nil {
		defer r.Close()
		if l, err := r.Find("try"); err != nil || l != nil {
			t.Errorf("a link is left: %v, %v", l, err)
		}
	}
}
