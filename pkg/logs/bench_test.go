package logs

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// BenchmarkContainers is the memory of a carrier of 100 containers, idle and
// while all of them write, and how much they write in a second.
func BenchmarkContainers(b *testing.B) {
	const containers, each = 100, 1 << 20
	c := site(b, DefaultSize, DefaultFiles)
	client := started(b, c)
	var fifos []FIFOs
	for i := range containers {
		f, err := client.Open(b.Context(), fmt.Sprint("c-", i), "")
		must(b, err)
		fifos = append(fifos, f)
	}
	memory := func() float64 {
		m, err := client.Memory(b.Context())
		must(b, err)
		return float64(m) / 1e6
	}
	idle := memory()
	worst := 0.0
	chunk := strings.Repeat(strings.Repeat("x", 99)+"\n", 500)
	begin, wrote := time.Now(), 0
	for b.Loop() {
		var wg sync.WaitGroup
		for _, f := range fifos {
			wg.Go(func() {
				out, err := os.OpenFile(f.Stdout, os.O_RDWR, 0)
				if err != nil {
					b.Error(err)
					return
				}
				defer out.Close()
				for n := 0; n < each; n += len(chunk) {
					if _, err := out.WriteString(chunk); err != nil {
						b.Error(err)
					}
				}
			})
		}
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		for over := false; !over; {
			select {
			case <-done:
				over = true
			case <-time.After(50 * time.Millisecond):
			}
			worst = max(worst, memory())
		}
		wrote += containers * each
	}
	b.ReportMetric(idle, "idle-MB")
	b.ReportMetric(worst, "busy-MB")
	b.ReportMetric(float64(wrote)/1e6/time.Since(begin).Seconds(), "MB/s")
}
