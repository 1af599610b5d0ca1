package database

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/flisttest"
	"github.com/croft-edge/croft/pkg/confine"
	"github.com/croft-edge/croft/pkg/fileid"
	"github.com/croft-edge/croft/pkg/flist"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// as reads a file with a process of this program that does something.
func as(t *testing.T, what, path string) (*flist.Flist, error) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer file.Close()
	return Reader{Command: []string{"/proc/self/exe", what}}.Read(t.Context(), file)
}

// here reads a database in this process: one that is well formed.
func here(t *testing.T, path string) (*flist.Flist, error) {
	t.Helper()
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	var answer bytes.Buffer
	w := bufio.NewWriter(&answer)
	if err := send(t.Context(), file, w); err != nil {
		return nil, flist.Refused("%w", err)
	}
	must(t, write(w, kindEnd))
	must(t, w.Flush())
	list, _, err := receive(&answer)
	return list, err
}

// written is the path of a file with some bytes.
func written(t *testing.T, raw []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "list.fl")
	must(t, os.WriteFile(path, raw, 0o600))
	return path
}

func made(t testing.TB, l flisttest.List) flisttest.Made {
	t.Helper()
	m, err := l.Make()
	must(t, err)
	return m
}

const sample = "../testdata"

// row is a line of the sample's manifest.
type row struct {
	Path, Type, Link, SHA256 string
	Mode                     string
	UID, GID                 uint32
	Size                     int64
	Blocks                   []struct {
		ID, Key string
		Plain   int `json:"plain_len"`
	}
}

// lines reads a file of JSON lines.
func lines[T any](t *testing.T, name string) (out []T) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(sample, name))
	must(t, err)
	in := json.NewDecoder(bytes.NewReader(raw))
	for {
		var one T
		err := in.Decode(&one)
		if err == io.EOF {
			return out
		}
		must(t, err)
		out = append(out, one)
	}
}

// paths are all entries by their paths.
func paths(e *flist.Entry, path string, into map[string]*flist.Entry) {
	into[path] = e
	for _, one := range e.Entries {
		paths(one, strings.TrimSuffix(path, "/")+"/"+one.Name, into)
	}
}

// contentOf reads a file from the sample's blocks.
func contentOf(t *testing.T, e *flist.Entry) []byte {
	t.Helper()
	var out []byte
	for i, b := range e.Blocks {
		stored, err := os.ReadFile(filepath.Join(sample, "blocks", b.ID.String()))
		must(t, err)
		plain, err := b.Decode(stored, e.Plain(i))
		must(t, err)
		out = append(out, plain...)
	}
	return out
}

// All of the sample is read as its manifest says, and each file has the content of the tree that it was made of.
func TestSample(t *testing.T) {
	list, err := as(t, "read", filepath.Join(sample, "sample.fl"))
	must(t, err)
	got := map[string]*flist.Entry{}
	paths(list.Root, "/", got)
	manifest := lines[row](t, "manifest.jsonl")
	if len(got) != len(manifest) || len(manifest) != 38 {
		t.Errorf("it has %d entries, the manifest %d, want 38", len(got), len(manifest))
	}
	types := map[string]os.FileMode{"dir": os.ModeDir, "file": 0, "link": os.ModeSymlink, "fifo": os.ModeNamedPipe, "block": os.ModeDevice, "char": os.ModeDevice | os.ModeCharDevice}
	for _, r := range manifest {
		e := got[r.Path]
		if e == nil || e.Mode.Type() != types[r.Type] || e.UID != r.UID || e.GID != r.GID || e.Size != r.Size || e.Target != r.Link || len(e.Blocks) != len(r.Blocks) {
			t.Errorf("%s is %+v, want %+v", r.Path, e, r)
			continue
		}
		for i, b := range r.Blocks {
			if e.Blocks[i].ID.String() != b.ID || e.Blocks[i].Key.String() != b.Key || e.Plain(i) != b.Plain {
				t.Errorf("block %d of %s is %+v, want %+v", i, r.Path, e.Blocks[i], b)
			}
		}
	}
	files := 0
	for _, r := range lines[row](t, "tree.jsonl") {
		e := got[r.Path]
		if e == nil {
			t.Errorf("%s is missing", r.Path)
			continue
		}
		var bits uint32
		if _, err := fmt.Sscanf(r.Mode, "%o", &bits); err != nil || e.Mode.Perm() != os.FileMode(bits&0o777) || e.Mode&os.ModeSetuid != 0 != (bits&unix.S_ISUID != 0) ||
			e.Mode&os.ModeSetgid != 0 != (bits&unix.S_ISGID != 0) || e.Mode&os.ModeSticky != 0 != (bits&unix.S_ISVTX != 0) {
			t.Errorf("the mode of %s is %v, want %s", r.Path, e.Mode, r.Mode)
		}
		if r.Type == "file" {
			files++
			path := written(t, contentOf(t, e))
			if sum, err := fileid.Sum(path); err != nil || sum != r.SHA256 {
				t.Errorf("the SHA-256 of %s is %s, %v, want %s", r.Path, sum, err, r.SHA256)
			}
		}
	}
	if files != 17 {
		t.Errorf("%d files were read, want 17", files)
	}
	if list.Tags["version"] != "0.1" || len(list.Tags) != 2 || len(list.Routes) != 2 || list.Routes[1] != (flist.Route{First: 128, Last: 255, URL: "dir:///blocks"}) {
		t.Errorf("tags are %v, routes %v", list.Tags, list.Routes)
	}
}

// What isn't a flist is refused with the reason, whatever a database can be.
func TestHostileDatabases(t *testing.T) {
	plain := flisttest.List{Files: []flisttest.File{{Path: "a/b", Content: "content"}}, Tags: map[string]string{"k": "v"}, Routes: []flist.Route{{Last: 255, URL: "http://a"}}}
	fine := made(t, plain).FL
	t.Run("as it should be", func(t *testing.T) {
		list, err := as(t, "read", written(t, fine))
		if err != nil || list.Root.Find("a").Find("b").Size != 7 {
			t.Errorf("%+v, %v", list, err)
		}
	})
	after := func(statements ...string) []byte {
		l := plain
		l.Statements = statements
		return made(t, l).FL
	}
	broken := func(at int, with ...byte) []byte {
		out := bytes.Clone(fine)
		copy(out[at:], with)
		return out
	}
	type hostile struct {
		raw  []byte
		says string
	}
	damaged := map[string]hostile{
		"nothing":           {nil, "no table inode"},
		"no database":       {[]byte(strings.Repeat("no database ", 1000)), "file is not a database"},
		"half of one":       {fine[:len(fine)/2], "malformed"},
		"a strange header":  {broken(16, 0, 1), ""},
		"a wrong root page": {broken(100, 0x0d, 0xff, 0xff, 0xff, 0xff), ""},
	}
	lying := map[string]hostile{
		"no inodes":      {after("DROP TABLE inode"), "it has no table inode"},
		"no routes":      {after("DROP TABLE route"), "it has no table route"},
		"an empty table": {after("DELETE FROM inode"), "isn't there"},
		"a view": {after("DROP TABLE tag", "CREATE VIEW tag AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT i AS key, i AS value FROM n"),
			"tag must be a table, and neither a view nor a virtual one"},
		"a virtual table":   {after("DROP TABLE tag", "CREATE VIRTUAL TABLE tag USING fts5(key, value)"), "tag must be a table, and neither a view nor a virtual one"},
		"a computed column": {after("DROP TABLE route", "CREATE TABLE route (start INTEGER, end INTEGER, url TEXT AS (hex(zeroblob(100000000))))", "INSERT INTO route VALUES (0, 255)"), "has computed columns"},
		"a table by key":    {after("DROP TABLE tag", "CREATE TABLE tag (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID"), "no such column: rowid"},
		"no column":         {after("ALTER TABLE route DROP COLUMN url"), `no such column: url`},
		"a trigger":         {after("CREATE TRIGGER t BEFORE INSERT ON tag BEGIN SELECT load_extension('x'); END"), ""},
		"a text as number":  {after("UPDATE inode SET size = 'seven' WHERE ino > 1"), "size of the table inode has a value of type text, must be integer"},
		"a real":            {after("UPDATE inode SET size = 7.5 WHERE ino > 1"), "has a value of type real, must be integer"},
		"a null":            {after("UPDATE inode SET name = NULL WHERE ino > 1"), "name of the table inode has a value of type null, must be text"},
		"a blob as name":    {after("UPDATE inode SET name = x'6162' WHERE ino > 1"), "has a value of type blob, must be text"},
		"a text as ID":      {after("UPDATE block SET id = 'abc'"), "id of the table block has a value of type text, must be blob"},
		"a number as URL":   {after("DROP TABLE route", "CREATE TABLE route (start INTEGER, end INTEGER, url)", "INSERT INTO route VALUES (0, 255, 7)"), "has a value of type integer, must be text"},
		"a date":            {after("DROP TABLE route", "CREATE TABLE route (start INTEGER, end INTEGER, url TIMESTAMP)", "INSERT INTO route VALUES (0, 255, '2027-03-01 12:00:00')"), ""},
		"a long value":      {after("UPDATE inode SET name = hex(zeroblob(5000)) WHERE ino > 1"), "has a value of 10000 bytes, at most 8192 are allowed"},
		"a huge value":      {after("UPDATE route SET url = hex(zeroblob(1000000))"), "too big"},
		"a wrong row":       {after("UPDATE inode SET parent = 99 WHERE ino > 1"), "is inode 99, which is no folder"},
		"a circle":          {after("UPDATE inode SET parent = ino WHERE name = 'a'"), "lead in a circle"},
	}
	check := func(name string, c hostile, list *flist.Flist, err error) {
		if c.says == "" && err == nil {
			return // it does no harm
		}
		if node.KindOf(err) != node.Refused || list != nil || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "cannot use the flist: ") {
			t.Errorf("%s: %v (%s), want %q", name, err, node.KindOf(err), c.says)
		}
	}
	for name, c := range damaged {
		list, err := as(t, "read", written(t, c.raw))
		check(name, c, list, err)
	}
	for name, c := range lying {
		list, err := here(t, written(t, c.raw))
		check(name, c, list, err)
	}
	for _, name := range []string{"a view", "a computed column", "a huge value"} {
		list, err := as(t, "read", written(t, lying[name].raw))
		check(name, lying[name], list, err)
	}
}

// A database that is larger than it may be isn't looked at.
func TestLargeDatabase(t *testing.T) {
	path := written(t, nil)
	must(t, os.Truncate(path, flist.Bytes.Each+1))
	before := limit.Times()[flist.Bytes.Name]
	if _, err := as(t, "other", path); node.KindOf(err) != node.Refused || !strings.Contains(err.Error(), "it has 33554433 bytes, at most 33554432 are allowed") {
		t.Errorf("%v", err)
	}
	if limit.Times()[flist.Bytes.Name] != before+1 {
		t.Error("it isn't counted")
	}
}

// Bytes anywhere in the file may be anything: the answer is a flist or a refusal, never a failure of this process.
func TestDamagedDatabases(t *testing.T) {
	fine := made(t, flisttest.List{Files: []flisttest.File{{Path: "a/b", Content: "content"}, {Path: "c", Mode: unix.S_IFLNK | 0o777, Target: "a"}}}).FL
	for i := range 16 {
		raw := bytes.Clone(fine)
		// Heads of pages, and what follows them.
		for j := range 1 + i%5 {
			raw[(i*4096+j*(i+7)*31+i%100)%len(raw)] ^= byte(1 + i*37 + j)
		}
		if _, err := as(t, "read", written(t, raw)); err != nil && node.KindOf(err) != node.Refused {
			t.Errorf("damage %d: %v (%s)", i, err, node.KindOf(err))
		}
	}
}

func TestReaderIsConfined(t *testing.T) {
	path := written(t, []byte("flist"))
	list, err := as(t, "try", path)
	// It did nothing, and so it has no root.
	if list != nil || node.KindOf(err) != node.Refused || !strings.Contains(err.Error(), "no inode 1") {
		t.Errorf("%v", err)
	}
	if raw, err := os.ReadFile(path); err != nil || string(raw) != "flist" {
		t.Errorf("the flist is %q, %v", raw, err)
	}
}

func TestFailedReader(t *testing.T) {
	path := written(t, nil)
	for what, says := range map[string]string{
		"panic": "what the flist says", "nonsense": "nonsense", "long": "nonsense", "beyond": "nonsense", "half": "nonsense", "other": "exit status 2", "endless": "more than 200000 entries",
	} {
		if _, err := as(t, what, path); node.KindOf(err) != node.Refused || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: %v (%s), want %q", what, err, node.KindOf(err), says)
		}
	}
}

func TestTimeHasACeiling(t *testing.T) {
	before := Time.Each
	Time.Each = 1
	defer func() { Time.Each = before }()
	if _, err := as(t, "spin", written(t, nil)); node.KindOf(err) != node.Refused || !strings.Contains(err.Error(), "more than 1 seconds") {
		t.Errorf("%v", err)
	}
}

func TestMemoryHasACeiling(t *testing.T) {
	if confine.RaceDetector {
		// Its own memory is more than any ceiling: make test runs this without it too.
		return
	}
	if _, err := as(t, "memory", written(t, nil)); node.KindOf(err) != node.Refused || !strings.Contains(err.Error(), "bytes of memory") {
		t.Errorf("%v", err)
	}
}

// FuzzAnswer: whatever the process answers is an index that is consistent, or an error.
func FuzzAnswer(f *testing.F) {
	var good bytes.Buffer
	w := bufio.NewWriter(&good)
	hash, _ := hex.DecodeString(strings.Repeat("ab", 32))
	for _, m := range []struct {
		kind   byte
		fields []field
	}{
		{kindInode, []field{{number: 1}, {}, {bytes: []byte("/")}, {}, {}, {}, {number: 0o040755}}},
		{kindInode, []field{{number: 2}, {number: 1}, {bytes: []byte("f")}, {number: 5}, {}, {}, {number: 0o100644}}},
		{kindInode, []field{{number: 3}, {number: 1}, {bytes: []byte("l")}, {number: 1}, {}, {}, {number: 0o120777}}},
		{kindExtra, []field{{number: 3}, {bytes: []byte("f")}}},
		{kindBlock, []field{{number: 2}, {bytes: hash}, {bytes: hash}}},
		{kindTag, []field{{bytes: []byte("k")}, {bytes: []byte("v")}}},
		{kindRoute, []field{{}, {number: 255}, {bytes: []byte("http://a")}}},
		{kindEnd, nil},
	} {
		if err := write(w, m.kind, m.fields...); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		f.Fatal(err)
	}
	if list, end, err := receive(bytes.NewReader(good.Bytes())); err != nil || end.kind != kindEnd || len(list.Root.Entries) != 2 {
		f.Fatal(list, end, err)
	}
	f.Add(good.Bytes())
	f.Add([]byte("w\x00\x00\x00\x03why"))
	f.Add([]byte("e"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, end, err := receive(bytes.NewReader(raw))
		if (list != nil) != (err == nil && end.kind == kindEnd) {
			t.Fatalf("%v, %+v, %v", list, end, err)
		}
		if list != nil {
			consistent(t, list.Root)
		}
	})
}

// consistent fails unless a tree is what users of an index rely on.
func consistent(t *testing.T, e *flist.Entry) {
	t.Helper()
	if e.Mode.IsRegular() {
		total := int64(0)
		for i := range e.Blocks {
			total += int64(e.Plain(i))
		}
		if total != e.Size {
			t.Fatalf("%q has %d bytes, its blocks %d", e.Name, e.Size, total)
		}
	} else if len(e.Blocks) > 0 {
		t.Fatalf("%q has blocks", e.Name)
	}
	for _, one := range e.Entries {
		if !e.Mode.IsDir() || e.Find(one.Name) != one || one.Name == "" || strings.ContainsAny(one.Name, "/\x00") {
			t.Fatalf("%q is in %q", one.Name, e.Name)
		}
		consistent(t, one)
	}
}
