package store_test

import (
	"testing"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/zdb/store"
)

// One store a folder, unless the caller sees to that.
func TestFolderLock(t *testing.T) {
	for _, guarded := range []bool{false, true} {
		cfg := store.Config{Dir: t.TempDir(), Layout: store.V2(), Log: zerolog.Nop(), Guarded: guarded}
		s, err := store.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		other, err := store.Open(cfg)
		if (err == nil) != guarded {
			t.Errorf("guarded %v: a second store: %v", guarded, err)
		}
		if other != nil {
			other.Discard()
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
