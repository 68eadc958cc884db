// Command relay receives gauge readings over HTTP and hands them to whoever listens.
package main

import (
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"sync"
	"time"
)

// Reading is one water level, in millimetres above chart datum.
type Reading struct {
	Station string    `json:"station"`
	Time    time.Time `json:"time"`
	LevelMM int       `json:"level_mm"`
}

// ErrStale is returned for readings older than the newest one of their station.
var ErrStale = errors.New("reading is older than the newest one")

// Board keeps the newest reading of every station.
type Board struct {
	mu     sync.RWMutex
	newest map[string]Reading
}

// NewBoard returns an empty board.
func NewBoard() *Board {
	return &Board{newest: make(map[string]Reading)}
}

// Post stores a reading unless a newer one is already there.
func (b *Board) Post(r Reading) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old, ok := b.newest[r.Station]; ok && !r.Time.After(old.Time) {
		return ErrStale
	}
	b.newest[r.Station] = r
	return nil
}

// ServeHTTP accepts one reading per POST and answers 409 for stale ones.
func (b *Board) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodPost {
		http.Error(w, "post a reading", http.StatusMethodNotAllowed)
		return
	}
	var r Reading
	if err := json.NewDecoder(http.MaxBytesReader(w, req.Body, 4096)).Decode(&r); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := b.Post(r); errors.Is(err, ErrStale) {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func main() {
	http.Handle("/readings", NewBoard())
	log.Fatal(http.ListenAndServe("127.0.0.1:7070", nil))
}
