package store_test

import (
	"testing"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/zdb/store"
)

func TestSetSurvivesReopen(t *testing.T) {
	cfg := store.Config{Dir: t.TempDir(), Layout: store.V2(), Log: zerolog.Nop()}
	s, err := store.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, wrote, err := s.Set([]byte("hello"), []byte("world"), store.SetOptions{At: 1}); err != nil || !wrote {
		t.Fatal(wrote, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = store.Open(cfg); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if v, found, err := s.Get([]byte("hello")); err != nil || !found || string(v) != "world" {
		t.Fatal(string(v), found, err)
	}
}
