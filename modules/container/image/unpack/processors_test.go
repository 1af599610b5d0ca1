package unpack

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestUnpackingLeavesHalfOfTheProcessors(t *testing.T) {
	var before, after unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "60")
	if err := startOnHalf(cmd); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	var its unix.CPUSet
	if err := unix.SchedGetaffinity(cmd.Process.Pid, &its); err != nil {
		t.Fatal(err)
	}
	if its != halfOf(before) {
		t.Errorf("it may use %v, want %v of %v", its, halfOf(before), before)
	}
	threads, err := filepath.Glob("/proc/self/task/*")
	if err != nil || len(threads) == 0 {
		t.Fatal(threads, err)
	}
	for _, one := range threads {
		var id int
		if _, err := fmt.Sscan(filepath.Base(one), &id); err != nil {
			t.Fatal(err)
		}
		if err := unix.SchedGetaffinity(id, &after); err == nil && after != before {
			t.Errorf("a thread of ours may use %v, had %v", after, before)
		}
	}
}

func TestHalfOfTheProcessors(t *testing.T) {
	for _, c := range []struct{ all, half []int }{
		{[]int{0}, []int{0}}, {[]int{7}, []int{7}}, {[]int{0, 1}, []int{1}}, {[]int{2, 5, 70}, []int{70}},
		{[]int{0, 1, 2, 3}, []int{2, 3}}, {[]int{0, 64, 128, 1023}, []int{128, 1023}},
	} {
		var all, want unix.CPUSet
		for _, cpu := range c.all {
			all.Set(cpu)
		}
		for _, cpu := range c.half {
			want.Set(cpu)
		}
		if got := halfOf(all); got != want {
			t.Errorf("half of %v is %v, want %v", c.all, got, want)
		}
	}
}
