package workload_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/workload"
)

// TestTheDocumentShowsTheSizes: docs/kubernetes/sizes.md has a row for each size, and no other.
func TestTheDocumentShowsTheSizes(t *testing.T) {
	raw, err := os.ReadFile("../../docs/kubernetes/sizes.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| size") {
			rows++
		}
	}
	if rows != workload.MaxVMSize {
		t.Errorf("%d rows, want %d", rows, workload.MaxVMSize)
	}
	for number := range workload.MaxVMSize {
		s, ok := workload.VMSizeOf(uint8(number + 1))
		row := fmt.Sprintf("| %d | %d | %d | %d |\n", number+1, s.CPU, s.Memory/workload.GiB, s.Disk/workload.GiB)
		if !ok || s.Memory%workload.GiB != 0 || s.Disk%workload.GiB != 0 || !strings.Contains(string(raw), row) {
			t.Errorf("size %d is %+v, without a row %q", number+1, s, row)
		}
	}
	for _, number := range []uint8{0, uint8(workload.MaxVMSize) + 1, 255} {
		if _, ok := workload.VMSizeOf(number); ok {
			t.Errorf("there is a size %d", number)
		}
	}
}
