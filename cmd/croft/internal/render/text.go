package render

import (
	"fmt"
	"time"
)

// Clock is a moment for people, in their own time zone; empty for the zero time.
func Clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04")
}

// YesNo is a boolean for people.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// Bytes is a number of bytes for people.
func Bytes(n uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	v, i := float64(n), 0
	for ; v >= 1024 && i < len(units)-1; i++ {
		v /= 1024
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", v, units[i])
}
