package main

import (
	"fmt"
	"io"
	"time"
)

// progress prints lines with the seconds since it was made.
type progress struct {
	to    io.Writer
	began time.Time
}

func newProgress(to io.Writer) *progress { return &progress{to: to, began: time.Now()} }

func (p *progress) say(format string, args ...any) {
	fmt.Fprintf(p.to, "kubernetes-image: %6.1f s  %s\n", time.Since(p.began).Seconds(), fmt.Sprintf(format, args...))
}

// mebibytes is a size in bytes as people read it.
func mebibytes(size int64) string { return fmt.Sprintf("%.1f MiB", float64(size)/(1<<20)) }
