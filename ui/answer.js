/** The answer of a question: its outcome in words, the confidence and the quotes from the files. */
import { html } from './vendor/preact-htm.js';
import { t, tn } from './i18n.js';
import { Icon, formatNumber, visibleText } from './components.js';

const OUTCOME_ICONS = { answered: 'check', passage: 'quote', nothing: 'info' };
/** Quotes with less confidence are passages that may answer, not an answer. */
const MIDDLE_CONFIDENCE = 0.4;
/** Quotes with less confidence are not shown: the files below are the better help. */
const LEAST_CONFIDENCE = 0.15;

function Quote({ quote, place, onOpen }) {
  return html`<li class="quote">
    <button type="button" class="quote-button" onClick=${() => onOpen(quote)}>
      <span class="quote-text"><bdi>${visibleText(quote.text)}</bdi></span>
      <span class="quote-place">
        ${quote.checked && html`<span class="quote-checked" title=${t('checked_explain')}><${Icon} name="file" size=${13} />${t('quote_checked')}</span>`}
        <bdi>${visibleText(place, true)}</bdi></span>
    </button></li>`;
}

/** The most words of a search that names a matter and asks nothing, like `mooring fee 2026`. */
const MAX_KEYWORDS = 3;

/** The number of words of a text; infinite in a script without spaces between words. */
function countWords(text) {
  return /[\u0e00-\u0eff\u3040-\u9fff]/.test(text) ? Infinity : text.trim().split(/\s+/).length;
}

function confidenceText(confidence) {
  if (confidence >= 0.7) return 'confidence_high';
  return confidence >= MIDDLE_CONFIDENCE ? 'confidence_middle' : 'confidence_low';
}

/**
 * What the answer pane says: `answered`, `passage` or `nothing`; null if there is no pane.
 * @param {string} [intent] of the plan: files that are only listed or counted have no answer
 */
export function shownOutcome(answer, query, intent) {
  const isNothing = answer.outcome === 'nothing' || answer.confidence < LEAST_CONFIDENCE;
  const isUnsure = isNothing || answer.confidence < MIDDLE_CONFIDENCE;
  // A file that is found by its name alone has no sentence to quote, and one word is hardly a question.
  if ((!isNothing && !answer.quotes.length) || (isUnsure && countWords(query) === 1) || ['list', 'count'].includes(intent)) return null;
  if (isNothing) return 'nothing';
  const isKeywords = !query.includes('?') && countWords(query) <= MAX_KEYWORDS;
  return isUnsure || isKeywords ? 'passage' : answer.outcome;
}

/**
 * The answer pane.
 * @param {object} props
 * @param {{outcome: string, confidence: number, quotes: object[]}} props.answer
 * @param {string} props.query
 * @param {string} [props.intent] of the plan
 * @param {(quote: object) => string} props.placeOf the place that is shown
 * @param {(quote: object) => void} props.onOpen
 */
export function Answer({ answer, query, intent, placeOf, onOpen }) {
  const outcome = shownOutcome(answer, query, intent);
  if (!outcome) return null;
  const isNothing = outcome === 'nothing';
  const percent = Math.round(answer.confidence * 100);
  return html`<section class=${`answer answer-${outcome}`} aria-labelledby="answer-title">
    <div class="answer-head">
      <${Icon} name=${OUTCOME_ICONS[outcome] || 'info'} />
      <h2 id="answer-title">${outcome === 'passage' ? tn('outcome_passage', answer.quotes.length) : t(`outcome_${outcome}`)}</h2>
      ${!isNothing && html`<span class="confidence" title=${t('confidence_explain')}>
        <span class="confidence-bar" aria-hidden="true"><span style=${{ width: `${percent}%` }}></span></span>
        ${t(confidenceText(answer.confidence), { percent: formatNumber(percent) })}</span>`}
    </div>
    ${isNothing ? html`<p>${t('outcome_nothing_explain')}</p>` : html`<ul class="quotes">${answer.quotes.map((quote, index) => html`<${Quote} key=${index} quote=${quote} place=${placeOf(quote)} onOpen=${onOpen} />`)}</ul>`}
  </section>`;
}
