package store_test

import (
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// A container's name is known for as long as its records exist, and no longer.
func TestNewestOfAContainersName(t *testing.T) {
	s := open(t, store.Config{Root: t.TempDir()})
	r := network("1-1", "web", time.Now(), time.Hour)
	r.Type = workload.TypeContainer
	key, ok := store.KeyOf(r)
	if other, _ := store.KeyOf(network("1-1", "web", time.Now(), time.Hour)); !ok || other == key {
		t.Fatal("a container's name has no key of its own")
	}
	rec := record(r, store.Ended)
	if err := put(s, rec); err != nil {
		t.Fatal(err)
	}
	if _, known := s.Newest(key); !known {
		t.Error("the newest of its name isn't known")
	}
	if err := s.Bury("1-1"); err != nil {
		t.Fatal(err)
	}
	if newest, known := s.Newest(key); known {
		t.Errorf("the newest of its name is remembered: %s", newest)
	}
}
