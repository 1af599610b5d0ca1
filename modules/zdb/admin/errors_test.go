package admin

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/croft-edge/croft/pkg/node"
)

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		err  error
		kind node.Kind
		text string
	}{
		{redis.Error("Namespace not found"), node.NotExist, `it says "Namespace not found"`},
		{redis.Error("This namespace doesn't exists"), node.NotExist, `it says "This namespace doesn't exists"`},
		{redis.Error("This namespace is not available"), node.Exist, `it says "This namespace is not available"`},
		{redis.Error("Argument too long"), node.Invalid, `it says "Argument too long"`},
		{redis.Error("Invalid value"), node.Invalid, `it says "Invalid value"`},
		{redis.Error("Permission denied"), node.Refused, `it says "Permission denied"`},
		{redis.Error("Command not supported"), node.Internal, `it says "Command not supported"`},
		{redis.Error("Your active namespace is not available anymore (probably removed)."), node.Internal, "it says"},
		{redis.Error("x\x00\n" + strings.Repeat("é", 1000)), node.Internal, `it says "x\x00\n`},
		{io.EOF, node.Transient, "it doesn't answer: EOF"},
		{os.ErrDeadlineExceeded, node.Transient, "it doesn't answer: i/o timeout"},
	} {
		err := classify(c.err)
		if node.KindOf(err) != c.kind || !strings.HasPrefix(err.Error(), c.text) || len(err.Error()) > 1000 {
			t.Errorf("%.60q: %v (%s), want %s of %s", c.err, err, node.KindOf(err), c.text, c.kind)
		}
	}
	if classify(nil) != nil {
		t.Error("nothing has a kind")
	}
}

// recorded is a step of the recordings of 0-db, which the server's tests keep.
type recorded struct {
	Send []any  `json:"send"`
	Recv string `json:"recv"`
}

// TestRecordedTexts has the texts of both versions of 0-db that say that a
// namespace isn't there, or is.
func TestRecordedTexts(t *testing.T) {
	files, err := filepath.Glob("../../../zdb/testdata/vectors/*/namespaces.jsonl")
	if err != nil || len(files) != 2 {
		t.Fatalf("recordings are %v, %v", files, err)
	}
	seen := map[node.Kind]int{}
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var step recorded
			if err := json.Unmarshal(lines.Bytes(), &step); err != nil || len(step.Send) < 2 || !strings.HasPrefix(step.Recv, "-") {
				continue
			}
			text := strings.TrimSuffix(step.Recv[1:], "\r\n")
			kind := node.KindOf(classify(redis.Error(text)))
			want := map[string]node.Kind{"NSINFO": node.NotExist, "SELECT": node.NotExist, "NSDEL": node.NotExist, "NSNEW": node.Exist}[step.Send[0].(string)]
			if ns := step.Send[1]; want != "" && (ns == "nope" || ns == "ns1" && want == node.Exist) {
				seen[kind]++
				if kind != want {
					t.Errorf("%s: %v is answered with %q: %s, want %s", name, step.Send, text, kind, want)
				}
			}
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
	}
	if seen[node.NotExist] < 4 || seen[node.Exist] < 2 {
		t.Errorf("seen %v: the recordings aren't read", seen)
	}
}

func TestPasswordsAreNotShown(t *testing.T) {
	c := command{name: "NSSET", arguments: []string{"5-1", "password"}, secret: "hush"}
	if got := c.plain(); len(got) != 3 || got[2] != "hush" {
		t.Errorf("sent is %v", got)
	}
	// A zdb that echoes requests.
	replies := "-hush isn't a good password\r\n-Argument too long\r\n"
	a := Client{redis.NewConn(newGuard(stream{strings.NewReader(replies)}), 0, 0)}
	errs := a.run([]command{c, c, c})
	for i, want := range []node.Kind{node.Internal, node.Invalid, node.Transient} {
		if node.KindOf(errs[i]) != want || strings.Contains(errs[i].Error(), "hush") {
			t.Errorf("%d: %v (%s), want %s", i, errs[i], node.KindOf(errs[i]), want)
		}
	}
	if errors.Is(errs[0], node.Transient) {
		t.Error("a refusal is worth another try")
	}
}

func TestReadInfo(t *testing.T) {
	good := "# namespace\nname: 5-1\nentries: 3\npublic: yes\nworm: no\npassword: yes\ndata_size_bytes: 10\ndata_limits_bytes: 18446744073709551615\nmode: userkey\ndisk_size_bytes: 4096\n"
	want := node.ZDBNamespace{Container: "c", Name: "5-1", Mode: "user", Size: 1<<64 - 1, Used: 10, Disk: 4096, Public: true, Protected: true}
	if got, err := readInfo(node.ZDBServerSpec{Container: "c"}, "5-1", []byte(good)); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, change := range [][2]string{
		{"name: 5-1", "name: 6-1"}, {"mode: userkey", "mode: none"}, {"mode: userkey\n", ""}, {"data_size_bytes: 10", "data_size_bytes: -1"},
		{"data_limits_bytes: 18446744073709551615", "data_limits_bytes: 18446744073709551616"}, {"data_limits_bytes", "limit"}, {good, ""},
	} {
		if got, err := readInfo(node.ZDBServerSpec{}, "5-1", []byte(strings.Replace(good, change[0], change[1], 1))); node.KindOf(err) != node.Transient {
			t.Errorf("%q: %+v, %v", change[1], got, err)
		}
	}
	for _, reply := range []any{nil, int64(1), []any{[]byte("x")}} {
		if got, err := readInfo(node.ZDBServerSpec{}, "5-1", reply); node.KindOf(err) != node.Transient {
			t.Errorf("%v: %+v, %v", reply, got, err)
		}
	}
}
