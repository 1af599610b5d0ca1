package storage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestQuotasThatAKernelHas(t *testing.T) {
	old, now := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(now, "simple_quota"), nil, 0o444); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		folder  string
		qgroups []string
		want    string
	}{
		"an old kernel":            {old, []string{"ssd0"}, "older than 6.7"},
		"a pool of an old kernel":  {now, []string{"ssd0", "hdd0"}, "made with qgroups, which stay: ssd0, hdd0"},
		"simple quotas everywhere": {now, nil, ""},
	} {
		err := simpleQuotas(c.folder, c.qgroups)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestLoopDevicesWithoutDirectAccess(t *testing.T) {
	is := func(device string) bool { return device != "/dev/loop1" }
	if err := direct([]string{"/dev/loop0", "/dev/loop2"}, is); err != nil {
		t.Error(err)
	}
	if err := direct([]string{"/dev/loop0", "/dev/loop1"}, is); err == nil || !strings.HasSuffix(err.Error(), ": /dev/loop1") {
		t.Errorf("%v", err)
	}
}
