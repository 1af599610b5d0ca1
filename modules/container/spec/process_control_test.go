package spec_test

import (
	"fmt"
	"testing"
)

// What the kernel calls croft's seven: bits 0 1 3 5 6 7 10.
const sevenCapabilities = "00000000000004eb"

func TestControlCapabilities(t *testing.T) {
	c := newContainer(t)
	status := ask[map[string]string](c, "status")
	want := map[string]string{"CapBnd": sevenCapabilities, "CapPrm": sevenCapabilities, "CapEff": sevenCapabilities, "CapInh": "0000000000000000", "CapAmb": "0000000000000000"}
	for set, mask := range want {
		if status[set] != mask {
			t.Errorf("root has %s %s, want %s", set, status[set], mask)
		}
	}
	fmt.Println(status)
}
