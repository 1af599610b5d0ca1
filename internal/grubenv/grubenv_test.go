package grubenv

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// block is a block of lines, filled up.
func block(lines string) []byte {
	out := []byte(signature + lines)
	return append(out, bytes.Repeat([]byte("#"), max(0, Size-len(out)))...)
}

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		content []byte
		want    []variable
		refused string
	}{
		"empty":                {block(""), nil, ""},
		"comments":             {block("# a comment\n" + warning), nil, ""},
		"two":                  {block("slot=a\ntrial=b\n"), []variable{{"slot", "a"}, {"trial", "b"}}, ""},
		"an empty value":       {block("trial=\n"), []variable{{"trial", ""}}, ""},
		"= and spaces":         {block("args=a=b c=d\n"), []variable{{"args", "a=b c=d"}}, ""},
		"escaped":              {block("args=a\\\\b\\\nc\n"), []variable{{"args", "a\\b\nc"}}, ""},
		"the last counts":      {block("slot=a\nx=1\nslot=b\n"), []variable{{"slot", "b"}, {"x", "1"}}, ""},
		"short":                {block("")[:1023], nil, "1023 bytes, must have 1024"},
		"long":                 {append(block(""), '#'), nil, "1025 bytes"},
		"nothing":              {nil, nil, "0 bytes"},
		"zeros":                {make([]byte, Size), nil, "doesn't begin with"},
		"no =":                 {block("slot\n"), nil, "no line NAME=VALUE"},
		"an empty line":        {block("\nslot=a\n"), nil, "no line NAME=VALUE"},
		"a digit first":        {block("1a=b\n"), nil, "no digit at first"},
		"no name":              {block("=b\n"), nil, "1 to 64"},
		"no end":               {block("slot=a"), nil, "no line NAME=VALUE"},
		"an escaped end":       {block("slot=a\\\n"), nil, "no line NAME=VALUE"},
		"a long name":          {block(strings.Repeat("n", 65) + "=1\n"), nil, "65 characters"},
		"a zero byte in value": {block("slot=a\x00\n"), nil, "zero byte"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(c.content)
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) || !strings.HasPrefix(err.Error(), "cannot ") {
					t.Fatalf("the error is %v, must have %q", err, c.refused)
				}
				return
			}
			if err != nil || !slices.Equal(got.variables, c.want) {
				t.Errorf("read %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestSetAndEncode(t *testing.T) {
	var b Block
	for _, bad := range [][2]string{{"", "x"}, {"a b", "x"}, {"ä", "x"}, {"slot", "a\nb"}, {"slot", "\x00"}, {"slot", "\x7f"}} {
		if err := b.Set(bad[0], bad[1]); err == nil {
			t.Errorf("%q=%q is taken", bad[0], bad[1])
		}
	}
	for _, v := range []variable{{"slot", "a"}, {"trial", "b"}, {"args", `x\y ü`}, {"slot", "b"}} {
		if err := b.Set(v.name, v.value); err != nil {
			t.Fatal(err)
		}
	}
	b.Delete("trial")
	b.Delete("absent")
	if got := b.Names(); !slices.Equal(got, []string{"slot", "args"}) {
		t.Errorf("the names are %q", got)
	}
	content, err := b.Encode()
	if err != nil || len(content) != Size || !strings.HasPrefix(string(content), signature+warning+"slot=b\nargs=x\\\\y ü\n###") {
		t.Errorf("encoded: %q, %v", content, err)
	}
	again, err := Parse(content)
	if err != nil || !slices.Equal(again.variables, b.variables) {
		t.Errorf("read again: %q, %v", again, err)
	}
	if value, ok := again.Get("slot"); value != "b" || !ok {
		t.Errorf("slot is %q, %v", value, ok)
	}
	if value, ok := again.Get("trial"); value != "" || ok {
		t.Errorf("trial is %q, %v", value, ok)
	}
}

// TestLimit holds that a block takes 1024 bytes with its signature, and not one more.
func TestLimit(t *testing.T) {
	var b Block
	room := Size - len(signature) - len("a=\n")
	if err := b.Set("a", strings.Repeat("v", room)); err != nil {
		t.Fatal(err)
	}
	if content, err := b.Encode(); err != nil || len(content) != Size {
		t.Errorf("%d bytes, %v", len(content), err)
	}
	if err := b.Set("a", strings.Repeat("v", room+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Encode(); err == nil || !strings.Contains(err.Error(), "need 1000 bytes, 999 are allowed") {
		t.Errorf("one byte too many: %v", err)
	}
}

// TestGrubEditenv holds that grub-editenv reads what is written here, and the other way round.
func TestGrubEditenv(t *testing.T) {
	path := filepath.Join(t.TempDir(), "grubenv")
	editenv := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("grub-editenv", append([]string{path}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("grub-editenv %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	editenv("create")
	editenv("set", "slot=a", `args=a\b c=d`, "trial=b")
	if err := Update(path, func(b *Block) error {
		if value, _ := b.Get("args"); value != `a\b c=d` {
			t.Errorf("grub-editenv's args are %q", value)
		}
		b.Delete("trial")
		return b.Set("slot", "b")
	}); err != nil {
		t.Fatal(err)
	}
	if got := editenv("list"); got != "slot=b\nargs=a\\b c=d\n" {
		t.Errorf("grub-editenv lists %q", got)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	editenv("set", "slot=b") // writes it anew
	if again, err := os.ReadFile(path); err != nil || !bytes.Equal(content, again) {
		t.Errorf("grub-editenv writes\n%q, %v, here\n%q", again, err, content)
	}
}

// TestWriteInPlace holds that the file stays the same one, and that no other is made or grown.
func TestWriteInPlace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "grubenv")
	if err := Write(path, &Block{}); err == nil {
		t.Error("a file was made")
	}
	if err := os.WriteFile(path, make([]byte, 512), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, &Block{}); err == nil || !strings.Contains(err.Error(), "must be a file of 1024 bytes") {
		t.Errorf("a file of 512 bytes: %v", err)
	}
	if err := os.WriteFile(path, make([]byte, Size), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := Update(path, func(*Block) error { return nil }); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a file of zeros: %v", err)
	}
	var b Block
	if err := b.Set("slot", "b"); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, &b); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if before.Sys().(*syscall.Stat_t).Ino != after.Sys().(*syscall.Stat_t).Ino || after.Size() != Size {
		t.Error("it is another file")
	}
	if got, err := Read(path); err != nil || !slices.Equal(got.variables, b.variables) {
		t.Errorf("read %q, %v", got, err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("the folder has %v", entries)
	}
}

func FuzzParse(f *testing.F) {
	for _, lines := range []string{"", "slot=a\ntrial=b\n", warning + "args=a\\\\b\\\nc\n", "slot", "\n", "x=\\"} {
		f.Add(block(lines))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		b, err := Parse(content)
		if err != nil {
			return
		}
		encoded, err := b.Encode()
		if err != nil || len(encoded) != Size {
			t.Fatalf("what was read can't be written: %d bytes, %v", len(encoded), err)
		}
		again, err := Parse(encoded)
		if err != nil || !slices.Equal(again.variables, b.variables) {
			t.Fatalf("read again: %q, %v, was %q", again, err, b)
		}
	})
}
