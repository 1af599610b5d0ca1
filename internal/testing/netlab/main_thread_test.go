package netlab_test

import (
	"os"
	"testing"

	"github.com/croft-edge/croft/internal/testing/netlab"
)

// A namespace is never made on the main thread, whose namespace /proc/self shows.
func TestTheMainThreadStaysInItsNamespace(t *testing.T) {
	before, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		netlab.New(t).Namespace("a")
		if now, err := os.Readlink("/proc/self/ns/net"); err != nil || now != before {
			t.Fatalf("the main thread is in %s, was in %s (%v)", now, before, err)
		}
	}
}
