package store_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// childStore, in the environment, marks this process as the one to be killed.
const childStore = "CROFT_STORE_TEST_CHILD"

func TestMain(m *testing.M) {
	if root := os.Getenv(childStore); root != "" {
		if err := writeForEver(root); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// writeForEver takes reservations through their lives, and prints each durable write at once.
func writeForEver(root string) error {
	s, err := store.Open(store.Config{Root: root, NewNode: true})
	if err != nil {
		return err
	}
	all, err := s.List()
	if err != nil {
		return err
	}
	for i := uint64(len(all)) + 1000*uint64(os.Getpid()); ; i++ {
		id := workload.ID{N: i, M: 1}.String()
		rec := record(volume(id, time.Now(), time.Hour), store.Intent)
		if err := put(s, rec); err != nil {
			return err
		}
		fmt.Println("begun", id, 0)
		done, err := one(s, answered(rec, store.Deployed, workload.StateOK))
		if err != nil {
			return err
		}
		fmt.Println("finished", id, done.Result.Sequence)
		if err := s.Acknowledge(store.Receipt{ID: id, Sequence: done.Result.Sequence}); err != nil {
			return err
		}
		fmt.Println("acknowledged", id, 0)
		if err := s.SetCursor(explorer.Cursor{Epoch: "e", Change: i}); err != nil {
			return err
		}
		fmt.Println("cursor", id, 0)
	}
}

// A real process is killed in the middle of its writes, again and again: every write that
// it printed is there, nothing is torn, and no number is given twice.
func TestKilledWhileWriting(t *testing.T) {
	root := t.TempDir() + "/store"
	said := map[string]map[string]bool{}
	numbers := map[int64]string{}
	cursor := uint64(0)
	for round := range 8 {
		for _, line := range killed(t, root, time.Duration(40+37*round)*time.Millisecond) {
			var what, id string
			var sequence int64
			if _, err := fmt.Sscan(line, &what, &id, &sequence); err != nil {
				t.Fatalf("the child says %q", line)
			}
			if said[id] == nil {
				said[id] = map[string]bool{}
			}
			said[id][what] = true
			if other := numbers[sequence]; sequence != 0 && other != "" {
				t.Errorf("number %d was given to %s and to %s", sequence, other, id)
			}
			numbers[sequence] = id
			if what == "cursor" {
				parsed, err := workload.ParseID(id)
				if err != nil {
					t.Fatal(err)
				}
				cursor = parsed.N
			}
		}
		verifySaid(t, root, said, cursor)
	}
	t.Logf("8 kills, %d records, %d numbers", len(said), len(numbers))
	if len(said) < 8 {
		t.Errorf("only %d records: the child hardly wrote", len(said))
	}
}

// killed lets a child write for a while, kills it, and returns its output.
func killed(t *testing.T, root string, after time.Duration) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childStore+"="+root)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var lines []string
	scanner := bufio.NewScanner(out)
	var armed *time.Timer
	for scanner.Scan() {
		if strings.HasPrefix(scanner.Text(), "error") {
			t.Error(scanner.Text())
			break
		}
		lines = append(lines, scanner.Text())
		if armed == nil { // it has begun to write
			armed = time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return lines
}

func verifySaid(t *testing.T, root string, said map[string]map[string]bool, cursor uint64) {
	t.Helper()
	s, err := store.Open(store.Config{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for id, what := range said {
		r, err := s.Record(id)
		if err != nil {
			t.Errorf("%s is lost: %v", id, err)
			continue
		}
		if err := workload.Verify(r.Reservation); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		if what["finished"] && (r.Phase != store.Deployed || r.Result == nil) || what["acknowledged"] && !r.Delivered {
			t.Errorf("%s: said %v, and it is %s, delivered %v", id, what, r.Phase, r.Delivered)
		}
	}
	if got := s.Cursor().Change; cursor != 0 && got < cursor {
		t.Errorf("the cursor is %d, %d was said", got, cursor)
	}
	if q := s.Quarantined(); len(q) != 0 {
		t.Errorf("set aside: %v", q)
	}
	if _, err := store.Open(store.Config{Root: root}); node.KindOf(err) != node.Busy {
		t.Errorf("opening it twice: %v, want Busy", err)
	}
}
