package explorer_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// TestOnlyAnEmptyAnswerAcknowledges: a node that takes a captive portal's page for an
// acknowledgement loses the result for good.
func TestOnlyAnEmptyAnswerAcknowledges(t *testing.T) {
	result := &workload.Result{ID: "1-1", Type: workload.TypeVolume, State: workload.StateOK, Created: time.Now(), Hash: make([]byte, 32), Signature: make([]byte, 64)}
	for _, c := range []struct {
		name   string
		status int
		body   string
		kind   node.Kind
	}{
		{"the explorer's and the seed's", http.StatusOK, "", ""},
		{"a captive portal's", http.StatusOK, "<html>sign in</html>", node.Transient},
		{"any object's", http.StatusOK, "{}", node.Transient},
		{"a broken explorer's", http.StatusInternalServerError, "", node.Transient},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			defer server.Close()
			client, err := explorer.NewClient(explorer.Config{URL: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			if err := client.PutResult(t.Context(), result); node.KindOf(err) != c.kind {
				t.Errorf("PutResult: %v", err)
			}
			if err := client.PutDeleted(t.Context(), result.ID, result); node.KindOf(err) != c.kind {
				t.Errorf("PutDeleted: %v", err)
			}
		})
	}
}
