package sign_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/sign"
)

// wordVectors are testdata/words.json.
type wordVectors struct {
	// English is the SHA-256 of BIP-39's english.txt.
	English   string       `json:"english_sha256"`
	Published []wordVector `json:"published"`
	Recorded  []wordVector `json:"recorded"`
	Refused   []struct {
		Words string `json:"words"`
		Error string `json:"error"`
	} `json:"refused"`
}

type wordVector struct {
	Seed  string `json:"seed_hex"`
	Words string `json:"words"`
}

func recordedWords(t *testing.T) wordVectors {
	t.Helper()
	var out wordVectors
	load(t, "words.json", &out)
	if len(out.Published) != 12 || len(out.Recorded) != 28 || len(out.Refused) != 19 {
		t.Fatalf("there are %d, %d and %d vectors", len(out.Published), len(out.Recorded), len(out.Refused))
	}
	return out
}

func TestRecordedWords(t *testing.T) {
	v := recordedWords(t)
	for _, c := range slices.Concat(v.Published, v.Recorded) {
		k, err := sign.FromSeed(unhex(t, c.Seed))
		if err != nil {
			t.Fatal(err)
		}
		words, err := sign.Words(k)
		if err != nil || words != c.Words {
			t.Errorf("%s: words are %q, %v", c.Seed, words, err)
		}
		back, err := sign.FromWords(" \n" + strings.ToUpper(strings.ReplaceAll(c.Words, " ", "\n  ")) + "\t")
		if err != nil || !bytes.Equal(back.Seed(), k.Seed()) {
			t.Errorf("%s: seed is %x, %v", c.Seed, back.Seed(), err)
		}
	}
	for _, c := range v.Refused {
		if _, err := sign.FromWords(c.Words); err == nil || err.Error() != c.Error {
			t.Errorf("%q: error is %v, want %s", c.Words, err, c.Error)
		}
	}
}

// TestEnglishList makes seeds whose words are the whole list in its order: 23 words of each seed
// are free, the last holds the checksum.
func TestEnglishList(t *testing.T) {
	const size, free = 2048, sign.WordCount - 1
	var list []string
	for len(list) < size {
		seed := new(big.Int)
		for i := range free {
			seed.Lsh(seed, 11).Or(seed, big.NewInt(int64((len(list)+i)%size)))
		}
		k, err := sign.FromSeed(seed.Lsh(seed, 3).FillBytes(make([]byte, 32)))
		if err != nil {
			t.Fatal(err)
		}
		words, err := sign.Words(k)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := sign.FromWords(words); err != nil || !bytes.Equal(back.Seed(), k.Seed()) {
			t.Fatalf("%q: seed is %x, %v", words, back.Seed(), err)
		}
		list = append(list, strings.Fields(words)[:free]...)
	}
	sum := sha256.Sum256([]byte(strings.Join(list[:size], "\n") + "\n"))
	if got := hex.EncodeToString(sum[:]); got != recordedWords(t).English {
		t.Errorf("the list's SHA-256 is %s", got)
	}
}

func TestWordsBothWays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "seed")
		k, err := sign.FromSeed(seed)
		if err != nil {
			t.Fatal(err)
		}
		words, err := sign.Words(k)
		if err != nil || len(strings.Fields(words)) != sign.WordCount {
			t.Fatalf("words are %q, %v", words, err)
		}
		back, err := sign.FromWords(words)
		if err != nil || !bytes.Equal(back.Seed(), seed) {
			t.Fatalf("seed is %x, %v", back.Seed(), err)
		}
	})
}

func TestWordsThatAreRefused(t *testing.T) {
	good := strings.Repeat("abandon ", 23)
	for _, c := range []struct{ name, words, want string }{
		{"none", "", "there are 0, must be 24"},
		{"few", "abandon art", "there are 2, must be 24"},
		{"many", good + "art art", "there are 25, must be 24"},
		{"unknown", strings.Replace(good, "abandon", "abandun", 1) + "art", "word 1 isn't in"},
		{"checksum", good + "abandon", "checksum"},
		{"order", "art " + good, "checksum"},
	} {
		_, err := sign.FromWords(c.words)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want one with %q", c.name, err, c.want)
			continue
		}
		if strings.Contains(err.Error(), "aband") {
			t.Errorf("%s: the error repeats a word: %v", c.name, err)
		}
	}
}
