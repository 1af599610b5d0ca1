package container

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

// A client that asks for a long log and doesn't read it holds little memory. The test isn't
// parallel: it measures the heap.
func TestUnreadLogStreamsHoldLittleMemory(t *testing.T) {
	const readers, most = 16, 256 << 10
	w := newWorld(t)
	w.runs(w.spec("1-1", "serve", "hello"))
	w.says("1-1", "serving hello")
	// 8 MiB are the most that is given of a log.
	var text strings.Builder
	at := time.Now().UTC().Format(time.RFC3339Nano)
	for text.Len() < 9<<20 {
		fmt.Fprintf(&text, "%s stdout F %s\n", at, strings.Repeat("x", 1000))
	}
	must(t, os.WriteFile(filepath.Join(w.dir, "s", "logs", "1-1", "0.log"), []byte(text.String()), 0o600))
	text.Reset()
	s := w.streams()
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	ctx, cancel := context.WithCancel(t.Context())
	var stuck, ended sync.WaitGroup
	stuck.Add(readers)
	for range readers {
		ended.Go(func() {
			first := sync.OnceFunc(stuck.Done)
			defer first()
			_ = s.Logs(ctx, "1-1", LogOptions{Tail: mostLines}, func(node.LogLine) error {
				first()
				<-ctx.Done()
				return ctx.Err()
			})
		})
	}
	stuck.Wait()
	held := heap() - before
	cancel()
	ended.Wait()
	t.Logf("%d KiB a reader", held/readers>>10)
	if held > readers*most {
		t.Errorf("%d readers hold %d bytes, at most %d are wanted", readers, held, readers*most)
	}
}
