package ready

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// server answers with the codes in turn, the last one for ever.
func server(t *testing.T, asked *atomic.Int64, codes ...int) string {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := int(asked.Add(1)) - 1
		http.Error(w, "[-]etcd failed", codes[min(n, len(codes)-1)])
	}))
	t.Cleanup(s.Close)
	return s.URL + "/readyz"
}

func quick(all time.Duration) Limits {
	return Limits{Every: time.Millisecond, Answer: 10 * time.Second, All: all}
}

func TestWaitUntilReady(t *testing.T) {
	var asked atomic.Int64
	url := server(t, &asked, 500, 403, 500, 200)
	if err := Wait(t.Context(), url, quick(time.Minute)); err != nil {
		t.Error(err)
	}
	if n := asked.Load(); n != 4 {
		t.Errorf("asked %d times, want 4", n)
	}
}

func TestWaitEndsAt401(t *testing.T) {
	var asked atomic.Int64
	url := server(t, &asked, 500, 401, 200)
	if err := Wait(t.Context(), url, quick(time.Minute)); err == nil || !strings.Contains(err.Error(), "--anonymous-auth") {
		t.Errorf("error %v, want one that names the flag", err)
	}
}

func TestWaitGivesUp(t *testing.T) {
	var asked atomic.Int64
	url := server(t, &asked, 500)
	err := Wait(t.Context(), url, quick(50*time.Millisecond))
	if err == nil || !strings.Contains(err.Error(), "not ready within 50ms") {
		t.Errorf("error %v, want one that names the limit", err)
	}
}

func TestWaitNobodyListens(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	url := s.URL
	s.Close()
	err := Wait(t.Context(), url, quick(50*time.Millisecond))
	if err == nil || !strings.Contains(err.Error(), "not ready within 50ms") {
		t.Errorf("error %v, want one that names the limit", err)
	}
}

func TestWaitHeedsItsContext(t *testing.T) {
	var asked atomic.Int64
	url := server(t, &asked, 500)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Wait(ctx, url, quick(time.Hour)); err == nil {
		t.Error("a cancelled wait succeeded")
	}
}
