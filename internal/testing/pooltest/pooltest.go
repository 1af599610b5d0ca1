// Package pooltest has real pools for tests of what uses virtual disks.
package pooltest

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/storage"
)

// patience is for a busy machine.
const patience = 4 * time.Minute

// Open makes a storage module with a pool on a loop file of 512 MiB, with quotas. Both go with the test.
func Open(t *testing.T) *storage.Module {
	t.Helper()
	cfg := storage.Config{State: t.TempDir(), Pools: storage.DefaultPools(512 << 20), Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.ErrorLevel)}
	t.Cleanup(func() { detach(t, cfg) })
	m, err := storage.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return m
}

// detach unmounts the pool. A process that another test forks has this one's files open until it executes its program.
func detach(t *testing.T, cfg storage.Config) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		err := storage.Detach(ctx, cfg)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Error(err)
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}
