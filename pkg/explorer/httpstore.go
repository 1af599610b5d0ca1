package explorer

import (
	"context"

	"github.com/croft-edge/croft/pkg/workload"
)

// HTTPStore is the seed's reservation store over HTTP: the same explorer as Client's, without
// contexts and without a key. The client's timeouts bound each call. Delete and Deleted are
// unsigned, so an explorer accepts them only where its operator allows it.
type HTTPStore struct {
	client *Client
	err    error
}

// NewHTTPStore makes a store of the explorer at url. An unusable URL is reported by each call.
func NewHTTPStore(url string) *HTTPStore {
	client, err := NewClient(Config{URL: url})
	return &HTTPStore{client: client, err: err}
}

// Poll returns the node's reservations whose number is at least from, and
// waits a while when there are none.
func (s *HTTPStore) Poll(nodeID workload.Identifier, from uint64) ([]*workload.Reservation, error) {
	if s.err != nil {
		return nil, s.err
	}
	return s.client.PollFrom(context.Background(), nodeID.Identity(), from)
}

// Get returns a reservation.
func (s *HTTPStore) Get(id string) (*workload.Reservation, error) {
	if s.err != nil {
		return nil, s.err
	}
	r, err := s.client.Get(context.Background(), id)
	if err != nil {
		return nil, err
	}
	return &r.Reservation, nil
}

// Reserve pushes a signed reservation and returns its ID.
func (s *HTTPStore) Reserve(r *workload.Reservation) (string, error) {
	if s.err != nil {
		return "", s.err
	}
	return s.client.Reserve(context.Background(), r)
}

// Feedback sends the result of the reservation id.
func (s *HTTPStore) Feedback(id string, r *workload.Result) error {
	if s.err != nil {
		return s.err
	}
	named := *r
	named.ID = id
	return s.client.PutResult(context.Background(), &named)
}

// Deleted reports that the workload is gone from the node.
func (s *HTTPStore) Deleted(id string) error {
	if s.err != nil {
		return s.err
	}
	return s.client.PutDeleted(context.Background(), id, nil)
}

// Delete asks to end the reservation early.
func (s *HTTPStore) Delete(id string) error {
	if s.err != nil {
		return s.err
	}
	return s.client.Delete(context.Background(), id, workload.Deletion{})
}
