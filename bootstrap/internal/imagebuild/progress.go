package imagebuild

import (
	"fmt"
	"io"
	"time"
)

// Progress prints lines with the seconds since it was made.
type Progress struct {
	to    io.Writer
	name  string
	began time.Time
}

// NewProgress begins each line with a name.
func NewProgress(to io.Writer, name string) *Progress {
	return &Progress{to: to, name: name, began: time.Now()}
}

// Say prints a line.
func (p *Progress) Say(format string, args ...any) {
	fmt.Fprintf(p.to, "%s: %6.1f s  %s\n", p.name, time.Since(p.began).Seconds(), fmt.Sprintf(format, args...))
}

// Mebibytes is a size in bytes as people read it.
func Mebibytes(size int64) string { return fmt.Sprintf("%.1f MiB", float64(size)/(1<<20)) }
