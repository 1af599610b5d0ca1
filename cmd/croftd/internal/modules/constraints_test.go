package modules_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/cmd/croftd/internal/modules"
)

// TestConstraints: which modules aren't opened on a machine that lacks something. The others are.
func TestConstraints(t *testing.T) {
	const gib = 1 << 30
	whole := module.Facts{Kernel: "6.1.0", Memory: 4 * gib}
	lacking := func(f module.Feature) module.Facts {
		return module.Facts{Kernel: "6.1.0", Memory: 4 * gib, Lacks: map[module.Feature]bool{f: true}}
	}
	for name, c := range map[string]struct {
		facts module.Facts
		want  []string
	}{
		"a whole machine":   {whole, nil},
		"nothing is known":  {module.Facts{}, nil},
		"an old kernel":     {module.Facts{Kernel: "5.18.0", Memory: 4 * gib}, []string{"container: kernel 5.19 or newer is needed, this is 5.18.0"}},
		"without btrfs":     {lacking(module.Btrfs), []string{"storage: a kernel with btrfs is needed, this is 6.1.0 without it"}},
		"without overlays":  {lacking(module.Overlay), []string{"container: a kernel with overlay is needed, this is 6.1.0 without it"}},
		"without nf_tables": {lacking(module.Nftables), []string{"network: a kernel with nf_tables is needed, this is 6.1.0 without it"}},
		"little memory":     {module.Facts{Kernel: "6.1.0", Memory: gib/4*3 - 1}, []string{"vm: a machine with 768 MiB of memory is needed, this is one with 767 MiB"}},
	} {
		var got []string
		for _, d := range modules.All() {
			if d.Constraints == nil {
				continue
			}
			for _, u := range d.Constraints(c.facts) {
				got = append(got, fmt.Sprintf("%s: %s", d.Name, u))
			}
		}
		if slices.Sort(got); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
