package s3_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/croft-edge/croft/internal/testing/s3test"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist"
	"github.com/croft-edge/croft/provision/persist/s3"
)

// A listing has the first persist.MostKeys valid keys, however many objects there are, and none of others' names.
func TestManyObjects(t *testing.T) {
	w := newWorld(t, s3test.New(t), "a/b", s3.Config{})
	const page = 1000
	pages := 0
	w.proxy.Before(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("list-type") == "" {
			return false
		}
		rw.Header().Set("Content-Type", "application/xml")
		fmt.Fprintf(rw, `<?xml version="1.0"?><ListBucketResult><Name>croft</Name><IsTruncated>true</IsTruncated><NextContinuationToken>%d</NextContinuationToken>`, pages)
		fmt.Fprintf(rw, `<Contents><Key>a/b/note/%s</Key></Contents><Contents><Key>a/b/note/READ ME</Key></Contents>`, strings.Repeat("x", 900))
		for i := range page {
			fmt.Fprintf(rw, `<Contents><Key>a/b/note/%08d</Key></Contents>`, pages*page+i)
		}
		fmt.Fprint(rw, `</ListBucketResult>`)
		pages++
		return true
	})
	keys, err := w.p.Keys(t.Context(), w.at, "note")
	if err != nil || len(keys) != persist.MostKeys || keys[0] != "00000000" || keys[len(keys)-1] != persist.Key(fmt.Sprintf("%08d", persist.MostKeys-1)) {
		t.Errorf("%d keys, %v", len(keys), err)
	}
	if pages > persist.MostKeys/page+1 {
		t.Errorf("%d pages were asked for", pages)
	}
}

// A key that may put and not delete doesn't take the instance down.
func TestPutOnly(t *testing.T) {
	w := newWorld(t, s3test.New(t), "a/b", s3.Config{})
	w.proxy.Before(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodDelete {
			return false
		}
		s3test.Answer(rw, http.StatusForbidden, "AccessDenied")
		return true
	})
	if err := w.p.DeleteObject(t.Context(), w.at, "note", "a"); node.KindOf(err) != node.Refused {
		t.Errorf("%v", err)
	}
	if o, err := w.p.GetObject(t.Context(), w.at, "note", "a"); err != nil || len(o.Body) == 0 || !w.p.InstanceStatus(w.at).Status {
		t.Errorf("%v, %+v", err, w.p.InstanceStatus(w.at))
	}
}

// What is to be put once is tried once, where it is tried several times else.
func TestOnce(t *testing.T) {
	w := newWorld(t, s3test.New(t), "a/b", s3.Config{})
	tries := 0
	w.proxy.Before(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut {
			return false
		}
		tries++
		s3test.Answer(rw, http.StatusServiceUnavailable, "SlowDown")
		return true
	})
	for _, c := range []struct {
		ctx  context.Context
		want int
	}{{persist.Once(t.Context()), 1}, {t.Context(), 3}} {
		w.up(t)
		tries = 0
		if _, err := w.p.PutObject(c.ctx, w.at, persist.Object{Kind: "note", Name: "a"}); node.KindOf(err) != node.Transient || tries != c.want {
			t.Errorf("%d tries, want %d: %v", tries, c.want, err)
		}
	}
}
