package storage

import (
	"context"
	"fmt"
	"testing"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// BenchmarkCreate makes and removes a file system on a pool that holds others.
func BenchmarkCreate(b *testing.B) {
	for _, others := range []int{0, 100, 1000} {
		b.Run(fmt.Sprintf("beside %d", others), func(b *testing.B) {
			cfg := Config{State: b.TempDir(), Pools: DefaultPools(2 * gib), Log: zerolog.Nop()}
			b.Cleanup(func() { sweep(b, cfg.State) })
			m, err := Open(b.Context(), cfg)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { m.Close(context.Background()) })
			for i := range others {
				benchCreate(b, m, fmt.Sprintf("8-%d", i))
			}
			b.ResetTimer()
			for i := range b.N {
				name := fmt.Sprintf("7-%d", i)
				benchCreate(b, m, name)
				b.StopTimer()
				if err := m.Storage().ReleaseFilesystem(name); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

// BenchmarkList measures the call that the node makes every ten seconds.
func BenchmarkList(b *testing.B) {
	cfg := Config{State: b.TempDir(), Pools: DefaultPools(2 * gib), Log: zerolog.Nop()}
	b.Cleanup(func() { sweep(b, cfg.State) })
	m, err := Open(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { m.Close(context.Background()) })
	for i := range 500 {
		benchCreate(b, m, fmt.Sprintf("8-%d", i))
	}
	for b.Loop() {
		if all, err := m.Storage().ListFilesystems(); err != nil || len(all) != 500 {
			b.Fatal(len(all), err)
		}
	}
}

func benchCreate(b *testing.B, m *Module, name string) {
	b.Helper()
	_, err := m.Storage().CreateFilesystem(node.FilesystemSpec{Name: name, Size: minSize, DiskType: workload.SSD})
	if err != nil {
		b.Fatal(err)
	}
}
