package zdb_test

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// alike compares a reply that differs from run to run with the recorded one.
func (p *player) alike(t *testing.T, st step, got []byte, lines map[string]string) error {
	t.Helper()
	want := []byte(st.recorded(t))
	if bytes.HasPrefix(want, []byte("$")) && bytes.Contains(want, []byte("\n# ")) {
		// How long requests and replies were isn't the same each time.
		traffic := map[string]string{"network_rx_bytes": strconv.Itoa(p.sent), "network_tx_bytes": strconv.Itoa(p.received)}
		maps.Copy(traffic, lines)
		return st.report(string(got), string(want), traffic)
	}
	return shape(bufio.NewReader(bytes.NewReader(got)), bufio.NewReader(bytes.NewReader(want)))
}

// moving are the lines of INFO that differ from run to run, where the transcript
// says only that many do.
var moving = []string{"instance_id", "boot_time", "uptime", "server_revision", "engine_revision"}

// report compares INFO or NSINFO line by line; lines are those that are to differ.
func (st step) report(got, want string, lines map[string]string) error {
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(want, "\n")
	wantLines = slices.DeleteFunc(wantLines, func(line string) bool {
		name, _, _ := strings.Cut(line, ": ")
		value, ok := lines[name]
		return ok && value == ""
	})
	if len(gotLines) != len(wantLines) {
		return fmt.Errorf("got %d lines, want %d:\n%s\nwant\n%s", len(gotLines), len(wantLines), got, want)
	}
	// The first is the length, which is right when the reply could be read.
	for i := 1; i < len(gotLines); i++ {
		gotName, gotValue, _ := strings.Cut(gotLines[i], ": ")
		wantName, wantValue, _ := strings.Cut(wantLines[i], ": ")
		if gotName != wantName {
			return fmt.Errorf("line %d is %q, want %q", i, gotLines[i], wantLines[i])
		}
		free := slices.Contains(st.Volatile, wantName) || slices.Contains(st.Volatile, "many") && slices.Contains(moving, wantName)
		if free && (gotValue == "") != (wantValue == "") {
			return fmt.Errorf("line %q has a value or not, unlike %q", gotLines[i], wantLines[i])
		}
		if value, ok := lines[wantName]; ok {
			wantValue = value
		}
		if !free && gotValue != wantValue {
			return fmt.Errorf("line is %q, want value %q", gotLines[i], wantValue)
		}
	}
	return nil
}

var changing = regexp.MustCompile(`^(\d+|[0-9a-f]{16})$`)

// shape compares values: kinds and lengths of arrays are the same, and where
// numbers, or texts that are numbers or challenges, stand, others may.
func shape(got, want *bufio.Reader) error {
	g, err := got.ReadString('\n')
	if err != nil {
		return err
	}
	w, err := want.ReadString('\n')
	if err != nil {
		return err
	}
	if g[0] != w[0] {
		return fmt.Errorf("got %q, want %q", g, w)
	}
	switch w[0] {
	case '*':
		if g != w {
			return fmt.Errorf("got an array %q, want %q", g, w)
		}
		n := 0
		fmt.Sscanf(w[1:], "%d", &n)
		for range n {
			if err := shape(got, want); err != nil {
				return err
			}
		}
	case ':':
		return nil
	case '$':
		gb, err := rest(got, g)
		if err != nil {
			return err
		}
		wb, err := rest(want, w)
		if err != nil {
			return err
		}
		return sameText(gb, wb)
	default:
		return sameText(strings.TrimSpace(g[1:]), strings.TrimSpace(w[1:]))
	}
	return nil
}

func rest(r *bufio.Reader, head string) (string, error) {
	n := 0
	if _, err := fmt.Sscanf(head[1:], "%d", &n); err != nil || n < 0 {
		return head, err
	}
	b := make([]byte, n+2)
	for i := range b {
		c, err := r.ReadByte()
		if err != nil {
			return "", err
		}
		b[i] = c
	}
	return string(b[:n]), nil
}

func sameText(got, want string) error {
	if got == want || changing.MatchString(got) && changing.MatchString(want) {
		return nil
	}
	return fmt.Errorf("got %q, want %q", got, want)
}
