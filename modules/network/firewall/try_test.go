package firewall

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// This kernel holds rules of all kinds, and nothing of the try stays.
func TestRulesThatThisKernelHolds(t *testing.T) {
	if err := Try(); err != nil {
		t.Error(err)
	}
}

// What a kernel lacks is named.
func TestRulesThatAKernelLacks(t *testing.T) {
	lacking := func(kinds ...string) func([]table) error {
		return func(tables []table) error {
			for _, table := range tables {
				for _, c := range table.chains {
					for _, r := range c.rules {
						for _, e := range r {
							if slices.Contains(kinds, kind(e)) {
								return unix.ENOENT
							}
						}
					}
				}
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		apply func([]table) error
		want  string
	}{
		"nothing":           {lacking(), ""},
		"routes back":       {lacking("fib"), "cannot make rules with fib: "},
		"NAT":               {lacking("masq"), "cannot make rules with masq: "},
		"states and clamps": {lacking("ct", "exthdr"), "cannot make rules with byteorder, ct, exthdr, rt: "},
		"all of it":         {func([]table) error { return errors.New("no nf_tables") }, "no nf_tables"},
		"it is odd":         {lacking("verdict"), ""},
	} {
		err := try(samples(), c.apply)
		switch {
		case name == "it is odd":
			if !errors.Is(err, unix.ENOENT) {
				t.Errorf("%s: %v", name, err)
			}
		case (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
