package runc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
)

// fake is a program that says that.
func fake(t *testing.T, says string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "runc")
	if err := os.WriteFile(path, fmt.Appendf(nil, "#!/bin/sh\ncat <<'END'\n%s\nEND\n", says), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWhichRuncIsUsed(t *testing.T) {
	for says, used := range map[string]bool{
		"runc version 1.1.12\ncommit: v1.1.12-0-g51d5e946\nspec: 1.0.2-dev": true,
		"runc version 1.3.3":                                   true,
		"runc version 1.2.0-rc.1":                              true,
		"runc version 2.0.0":                                   true,
		"runc version 1.1.5+ds1\ncommit: 1.1.5+ds1-1+deb12u1":  true,
		"runc version 1.1.5+ds1\ncommit: 1.1.5+ds1-1+deb12u12": true,
		"runc version 1.1.5+ds1\ncommit: 1.1.5+ds1-1+b1":       false,
		"runc version 1.1.5\ncommit: 1.1.5+ds1-1+deb12u0":      false,
		"runc version 1.1.11":                                  false,
		"runc version 1.0.0-rc93":                              false,
		"runc version unknown":                                 false,
		"crun version 1.8.1":                                   false,
		"":                                                     false,
	} {
		r, err := Find(t.Context(), fake(t, says))
		switch {
		case used && (err != nil || !strings.HasPrefix(says, "runc version "+r.Version)):
			t.Errorf("%q: %+v, %v", says, r, err)
		case !used && node.KindOf(err) != node.Refused:
			t.Errorf("%q: %+v, %v", says, r, err)
		case !used && strings.HasPrefix(says, "runc version 1") && (!strings.Contains(err.Error(), "CVE-2024-21626") || !strings.Contains(err.Error(), Least)):
			t.Errorf("%q: %v doesn't say why", says, err)
		}
	}
	if _, err := Find(t.Context(), "/no/such/runc"); node.KindOf(err) != node.Refused {
		t.Errorf("without one: %v", err)
	}
}

func TestTheMachinesRuncIsUsed(t *testing.T) {
	if r, err := Find(t.Context(), "runc"); err != nil || r.Version == "" || !filepath.IsAbs(r.Path) {
		t.Errorf("%+v, %v", r, err)
	}
}
