package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/zdb/store"
)

// Files of versions before checkpoints and headers knew of damage are read, and written on.
func TestOlderFormats(t *testing.T) {
	for _, sequential := range []bool{false, true} {
		for _, clean := range []bool{false, true} {
			d := fuzzStore(t, sequential, clean)
			for path, f := range d.files {
				switch name := strings.TrimPrefix(path, "/data/"); {
				case name == "checkpoint":
					f.content = slices.Delete(f.content, 96, 104)
					copy(f.content, "zdbchck1")
					store.Seal(name, f.content)
				case strings.HasPrefix(name, "log-"):
					clear(f.content[56:80])
					store.Seal(name, f.content)
				case name == "reserve", name == "spare":
					delete(d.files, path)
				}
			}
			cfg := fuzzConfig(sequential).OnDisk(d)
			s := open(t, cfg)
			want := s.Stats()
			if want.Entries == 0 || want.Damaged > 0 {
				t.Fatalf("%+v", want)
			}
			for i := range 10 {
				key := fmt.Sprint("new-", i)
				if sequential {
					key = ""
				}
				set(t, s, key, "value", 1)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, cfg)
			if got := s.Stats(); got.Entries != want.Entries+10 || got.Damaged > 0 {
				t.Errorf("%+v, want 10 more than %+v", got, want)
			}
			s.Discard()
		}
	}
}
