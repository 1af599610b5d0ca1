package unpack

import (
	"encoding/json"
	"os"
	"runtime"
	"testing"

	"go.uber.org/goleak"
)

// The first argument says what this program does in the place of Serve: only the
// needed operations, forbidden ones too, or die in some way.
func TestMain(m *testing.M) {
	if len(os.Args) != 2 {
		goleak.VerifyTestMain(m)
		return
	}
	say := func(inside func() error) {
		a := answer{}
		if err := serve(&a, inside); err != nil {
			a = failed(err)
		}
		_ = json.NewEncoder(os.Stdout).Encode(a)
		os.Exit(0)
	}
	switch os.Args[1] {
	case "unpack":
		os.Exit(Serve())
	case "try":
		say(try)
	case "panic":
		panic("what the layer says\x1b[2J")
	case "spin":
		Time.Each = 1
		say(func() error {
			for {
				runtime.KeepAlive(make([]byte, 1))
			}
		})
	case "memory":
		say(func() error {
			var all [][]byte
			for range 1 << 20 {
				part := make([]byte, 1<<20)
				for i := 0; i < len(part); i += 4096 {
					part[i] = 1
				}
				all = append(all, part)
			}
			runtime.KeepAlive(all)
			return nil
		})
	case "nonsense":
		_, _ = os.Stdout.WriteString(`{"Opaque":1`)
		os.Exit(0)
	case "liar":
		_ = json.NewEncoder(os.Stdout).Encode(answer{Result: Result{Bytes: 1 << 60}})
		os.Exit(0)
	case "opaque":
		_ = json.NewEncoder(os.Stdout).Encode(answer{Opaque: []string{"/../../../etc", "/link", "/link/x", "/none", "/dir"}})
		os.Exit(0)
	case "much":
		for {
			if _, err := os.Stdout.Write(make([]byte, 1<<20)); err != nil {
				os.Exit(1)
			}
		}
	}
	os.Exit(2)
}
