package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

func say(format string, args ...any) { fmt.Printf("        "+format+"\n", args...) }

// show prints a command's output, indented.
func show(out []byte) {
	for _, line := range strings.Split(strings.TrimRight(string(out), "\n"), "\n") {
		say("%s", line)
	}
}

// until asks again and again until ok, for at most limit.
func until(ctx context.Context, limit time.Duration, what string, ok func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		done, err := ok()
		if done && err == nil {
			return nil
		}
		last = err
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %s: %w", what, limit, errors.Join(last, ctx.Err()))
		case <-tick.C:
		}
	}
}

// answers reports whether url answers with 200.
func answers(ctx context.Context, url string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, err
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK, nil
}
