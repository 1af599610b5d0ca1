package bus

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/bus/transport"
	"github.com/croft-edge/croft/pkg/workload"
)

// recordedFrame is a frame of testdata/frames_v1.0.json: one that the bare library's
// client and server of v1.0.1 sent each other over redis.
type recordedFrame struct {
	Name     string `json:"name"`
	Method   string `json:"method"`
	Request  string `json:"request_hex"`
	Response string `json:"response_hex"`
	Channel  string `json:"channel"`
	Event    string `json:"event_hex"`
}

func recordedFrames(t *testing.T) []recordedFrame {
	t.Helper()
	raw, err := os.ReadFile("testdata/frames_v1.0.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Frames []recordedFrame }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Frames) != 24 {
		t.Fatalf("%d frames, want 24", len(file.Frames))
	}
	return file.Frames
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// recorded is the interface of the object of the recorded frames.
type recorded interface {
	NodeID() string
	Sign(b []byte) ([]byte, error)
	SignFail(b []byte) ([]byte, error)
	Nop()
	ErrOnly() error
	ErrOnlyFail() error
	ErrEmpty() error
	Multi(n int, s string) (int, string, error)
	MultiFail(n int, s string) (int, string, error)
	Two(n int64, small uint8) (int64, bool)
	Var(s string, numbers ...int) int
	Struct(b Big) Big
	Panics()
	Bad() (func(), error)
}

type Inner struct {
	IPs []net.IP
	M   map[string]string
}

type Big struct {
	Name  string
	Size  uint64
	Neg   int
	Small uint8
	F     float64
	B     bool
	Raw   []byte
	Dur   time.Duration
	Inner Inner
	Ptr   *Inner
	Nil   *Inner
	List  []string
	Empty []string
}

type recordedImpl struct{}

func (recordedImpl) NodeID() string { return "5f4NTehmQGhwTDCtorQTFL58HfopFWDXDSR8BqRu6ddZ" }

func (recordedImpl) Sign(b []byte) ([]byte, error) { return append([]byte("sig:"), b...), nil }
func (recordedImpl) SignFail([]byte) ([]byte, error) {
	return nil, errors.New("sign failed: 100% no")
}
func (recordedImpl) Nop()               {}
func (recordedImpl) ErrOnly() error     { return nil }
func (recordedImpl) ErrOnlyFail() error { return errors.New("boom") }
func (recordedImpl) ErrEmpty() error    { return errors.New("") }
func (recordedImpl) Multi(n int, s string) (int, string, error) {
	return n + 1, s + "!", nil
}
func (recordedImpl) MultiFail(int, string) (int, string, error) {
	return 0, "", errors.New("multi failed")
}
func (recordedImpl) Two(n int64, small uint8) (int64, bool) { return n, small == 0xc8 }
func (recordedImpl) Var(_ string, numbers ...int) int       { return len(numbers) }
func (recordedImpl) Struct(b Big) Big                       { return b }
func (recordedImpl) Panics()                                { panic("oops") }
func (recordedImpl) Bad() (func(), error)                   { return func() {}, nil }

// recordedArguments are the arguments of the recorded calls.
func recordedArguments(name string) []any {
	null := []byte("null")
	inner := &Inner{M: map[string]string(nil)}
	switch name {
	case "bytes_ok", "bytes_error", "deterministic_request", "unknown_object":
		return []any{null}
	case "three_results_ok", "three_results_error":
		return []any{41, "x"}
	case "two_results_no_error":
		return []any{int64(-300), uint8(0xc8)}
	case "variadic":
		return []any{"a", 1, 2, 3}
	case "wrong_arg_type":
		return []any{map[string]int{"a": 1}}
	case "struct":
		return []any{Big{
			Name: "n", Size: 1 << 40, Neg: -5, Small: 7, F: 1.5, B: true, Raw: []byte{0, 1, 2}, Dur: time.Hour,
			Inner: Inner{IPs: []net.IP{net.ParseIP("10.1.1.20"), net.ParseIP("2a02::1")}, M: map[string]string{"K": "v"}},
			Ptr:   inner, List: []string{"a", "b"},
		}}
	}
	return nil
}

func TestOurRequestsAreTheRecordedBytes(t *testing.T) {
	checked := 0
	for _, f := range recordedFrames(t) {
		if f.Request == "" {
			continue
		}
		want := unhex(t, f.Request)
		bare, err := zbus.LoadRequest(want)
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		inputs, err := encodeArguments(recordedArguments(f.Name))
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		got, err := encode(&request{ID: bare.ID, Inputs: inputs, Object: bare.Object, ReplyTo: bare.ReplyTo, Method: bare.Method})
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s:\n got %x\nwant %x\n%v", f.Name, got, want, err)
		}
		// And the other way.
		req := &request{}
		if err := decode(want, req); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
		if req.ID != bare.ID || req.Method != bare.Method || req.Object != bare.Object || req.ReplyTo != bare.ReplyTo || !reflect.DeepEqual(zbus.Tuple(req.Inputs), bare.Inputs) {
			t.Errorf("%s: read %+v, want %+v", f.Name, req, bare)
		}
		checked++
	}
	if checked != 20 {
		t.Errorf("%d requests were checked, want 20", checked)
	}
}

// The answers in which our server differs from the bare library's, and why.
var answeredOtherwise = map[string]string{
	"error_with_empty_text": "an error without a text gets one",
	"result_not_encodable":  "success without a result becomes an error",
	"panic_in_method":       "the caller isn't told the panic's text, and gets it as the method's error",
	"unknown_method":        "the text names the call",
	"wrong_arg_count":       "the text names the call",
	"wrong_arg_type":        "the text names the call",
	"unknown_object":        "the text names the call",
	"status":                "its worker's time is the time of recording",
}

func TestOurServerAnswersTheRecordedBytes(t *testing.T) {
	b, _ := recordedServer(t)
	same := 0
	for _, f := range recordedFrames(t) {
		if f.Request == "" {
			continue
		}
		frame := unhex(t, f.Request)
		queue := "provision.provision@0.0.1"
		if f.Name == "status" {
			queue = "provision.zbus@1.0"
		}
		req, err := zbus.LoadRequest(frame)
		if err != nil {
			t.Fatal(err)
		}
		if transport.CheckReplyKey(req.ReplyTo) != nil {
			if got := answerTo(t, b, queue, req); got != nil {
				t.Errorf("%s: %q isn't a reply key of the agreed form, and got %x", f.Name, req.ReplyTo, got)
			}
			req.ReplyTo = req.ID
		}
		got := answerTo(t, b, queue, req)
		want := unhex(t, f.Response)
		switch {
		case answeredOtherwise[f.Name] != "":
			checkOtherwise(t, f.Name, got, want)
		default:
			same++
			if bare := withoutKinds(t, got); !bytes.Equal(bare, want) {
				t.Errorf("%s:\n got %x\nwant %x", f.Name, bare, want)
			}
		}
	}
	if same != 12 {
		t.Errorf("%d answers were the recorded bytes, want 12", same)
	}
}

func recordedServer(t *testing.T) (*InProcess, *Server) {
	t.Helper()
	b := NewInProcess()
	t.Cleanup(func() { _ = b.Close() })
	s, err := NewServer(b, "provision", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newObject(reflect.ValueOf(new(recorded(recordedImpl{}))).Elem()); err == nil {
		t.Fatal("a method that returns a function was accepted")
	}
	// Register refuses Bad, which this test needs.
	o := &object{methods: map[string]method{}}
	contract := reflect.ValueOf(new(recorded(recordedImpl{}))).Elem()
	for i := range contract.Type().NumMethod() {
		m, err := newMethod(contract.Method(i))
		if name := contract.Type().Method(i).Name; err != nil {
			if name != "Bad" {
				t.Fatal(err)
			}
			m = method{fn: contract.Method(i), results: []int{0}, failure: 1}
		}
		o.methods[contract.Type().Method(i).Name] = m
	}
	if err := s.objects.register(Object("provision", "0.0.1"), o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return b, s
}

func answerTo(t *testing.T, b *InProcess, queue string, req *zbus.Request) []byte {
	t.Helper()
	frame, err := req.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Push(t.Context(), queue, frame, time.Minute); err != nil {
		t.Fatal(err)
	}
	limit := 5 * time.Second
	if transport.CheckReplyKey(req.ReplyTo) != nil {
		limit = 50 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	got, err := b.Pull(req.ReplyTo).Next(ctx)
	if err != nil && !ended(err) {
		t.Fatal(err)
	}
	return got
}

// withoutKinds is a reply in the bare library's encoding.
func withoutKinds(t *testing.T, frame []byte) []byte {
	t.Helper()
	rep, err := zbus.LoadResponse(frame)
	if err != nil {
		t.Fatalf("the bare library can't read %x: %v", frame, err)
	}
	bare, err := rep.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return bare
}

func checkOtherwise(t *testing.T, name string, got, want []byte) {
	t.Helper()
	mine, err := zbus.LoadResponse(got)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	theirs, err := zbus.LoadResponse(want)
	if err != nil {
		t.Fatal(err)
	}
	if mine.ID != theirs.ID {
		t.Errorf("%s: the ID is %s, want %s", name, mine.ID, theirs.ID)
	}
	var a, b zbus.Status
	switch name {
	case "status":
		if err := mine.Unmarshal(&zbus.Loader{&a}); err != nil {
			t.Error(err)
		}
		if err := theirs.Unmarshal(&zbus.Loader{&b}); err != nil {
			t.Error(err)
		}
		if !reflect.DeepEqual(a.Objects, b.Objects) || len(a.Workers) != 4 || a.Workers[0].State != b.Workers[0].State {
			t.Errorf("status %+v, recorded %+v", a, b)
		}
	case "panic_in_method", "result_not_encodable", "error_with_empty_text":
		if mine.Error != nil || mine.CallError() == nil || strings.Contains(mine.CallError().Error(), "oops") {
			t.Errorf("%s: got %+v", name, mine)
		}
	default:
		if mine.Error == nil || theirs.Error == nil || mine.Output.Error != nil {
			t.Errorf("%s: got %+v, recorded %+v", name, mine, theirs)
		}
	}
}

// A server with only the recorded answers gives them to our client.
func TestOurClientReadsTheRecordedAnswers(t *testing.T) {
	b := NewInProcess()
	t.Cleanup(func() { _ = b.Close() })
	c := NewClient(b, Options{Timeout: 5 * time.Second})
	defer c.Close()
	for _, f := range recordedFrames(t) {
		if f.Request == "" || f.Name == "deterministic_request" {
			continue
		}
		bare, err := zbus.LoadResponse(unhex(t, f.Response))
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			frame, err := b.Pull("provision.provision@0.0.1").Next(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			req, err := zbus.LoadRequest(frame)
			if err != nil {
				t.Error(err)
				return
			}
			answer := bytes.ReplaceAll(unhex(t, f.Response), []byte(bare.ID), []byte(req.ID))
			if _, err := b.Push(t.Context(), req.ReplyTo, answer, time.Minute); err != nil {
				t.Error(err)
			}
		}()
		got, err := c.RequestContext(t.Context(), "provision", Object("provision", "0.0.1"), f.Method, recordedArguments(f.Name)...)
		<-done
		wantErr := bare.Error != nil || bare.Output.Error != nil
		if (err != nil) != wantErr || (err == nil && !bytes.Equal(got.Output.Data, bare.Output.Data)) {
			t.Errorf("%s: got %+v, %v; recorded %+v", f.Name, got, err, bare)
		}
		if bare.Error != nil && err.Error() != *bare.Error {
			t.Errorf("%s: the text is %q, recorded %q", f.Name, err, *bare.Error)
		}
	}
}

func TestRecordedEvents(t *testing.T) {
	checked := 0
	for _, f := range recordedFrames(t) {
		if f.Event == "" {
			continue
		}
		want := unhex(t, f.Event)
		b := NewInProcess()
		events, err := b.Subscribe(t.Context(), f.Channel)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Publish(t.Context(), f.Channel, want); err != nil {
			t.Fatal(err)
		}
		var counters workload.ProvisionCounters
		if err := (<-events).Unmarshal(&counters); err != nil {
			t.Fatal(err)
		}
		if got, err := encode(counters); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%+v: got %x, want %x, %v", counters, got, want, err)
		}
		_ = b.Close()
		checked++
	}
	if checked != 4 {
		t.Errorf("%d events were checked, want 4", checked)
	}
}
