package logs

import (
	"bytes"
	"time"
	"unicode/utf8"

	"github.com/croft-edge/croft/pkg/node"
)

// The names of the streams.
const (
	stdout = "stdout"
	stderr = "stderr"
)

const (
	// stamp is RFC3339Nano with all of its digits: lines of a time that is
	// written twice have the same length.
	stamp = "2006-01-02T15:04:05.000000000Z"
	// maxText is the longest text of a record in bytes, maxRecord that of all of it.
	maxText   = 16 << 10
	maxRecord = maxText + len(stamp) + len(" stdout F \n")
)

// appendRecord appends one line of a file. A text that goes on in the next
// record isn't full.
func appendRecord(out []byte, at time.Time, stream string, full bool, text []byte) []byte {
	out = at.UTC().AppendFormat(out, stamp)
	out = append(out, ' ')
	out = append(out, stream...)
	if full {
		out = append(out, " F "...)
	} else {
		out = append(out, " P "...)
	}
	out = append(out, text...)
	return append(out, '\n')
}

// parseRecord reads a line without its end. Any time of RFC 3339 will do.
func parseRecord(line []byte) (node.LogLine, bool) {
	at, rest, ok := bytes.Cut(line, []byte(" "))
	if !ok || len(at) > 40 {
		return node.LogLine{}, false
	}
	when, err := time.Parse(time.RFC3339Nano, string(at))
	if err != nil || when.Year() < 1970 || when.Year() > 2200 {
		return node.LogLine{}, false
	}
	stream, rest, ok := bytes.Cut(rest, []byte(" "))
	if !ok || string(stream) != stdout && string(stream) != stderr {
		return node.LogLine{}, false
	}
	tag, text, ok := bytes.Cut(rest, []byte(" "))
	if !ok || string(tag) != "F" && string(tag) != "P" {
		return node.LogLine{}, false
	}
	return node.LogLine{At: when.UnixNano(), Stream: string(stream), Text: string(text)}, true
}

// nextText is the text of the next record in data, and how many bytes it takes
// there. Nothing is taken of a line that isn't whole yet, unless it is too
// long or has to be flushed.
func nextText(data []byte, flush bool) (text []byte, taken int, full bool) {
	if end := bytes.IndexByte(data[:min(len(data), maxText+1)], '\n'); end >= 0 {
		return data[:end], end + 1, true
	}
	switch {
	case len(data) > maxText:
		n := cut(data)
		return data[:n], n, false
	case flush && len(data) > 0:
		return data, len(data), false
	}
	return nil, 0, false
}

// cut is where a text that is too long is cut: not within a character.
func cut(data []byte) int {
	for n := maxText; n > maxText-utf8.UTFMax; n-- {
		if utf8.RuneStart(data[n]) {
			return n
		}
	}
	return maxText
}

// render appends the records of data, as long as they fit into outSize bytes but
// at least one, and returns how many bytes of data they take. Rendering just those
// bytes again, with flush, yields the same records.
func render(out, data []byte, at time.Time, stream string, flush bool) ([]byte, int) {
	used := 0
	for used < len(data) {
		text, taken, full := nextText(data[used:], flush)
		if taken == 0 || used > 0 && len(out)+len(text)+maxRecord-maxText > outSize {
			break
		}
		out = appendRecord(out, at, stream, full, text)
		used += taken
	}
	return out, used
}
