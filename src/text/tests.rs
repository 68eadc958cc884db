use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

/// Checks where sentences end in several texts; `¦` marks the expected ends.
fn check_all(marked: &[&str]) {
    let found = marked.iter().map(|marked| {
        let text = marked.replace('¦', "");
        sentences(&text).into_iter().map(|it| text[it].to_string()).collect::<Vec<_>>().join("¦")
    });
    let wrong: Vec<(String, &&str)> = found.zip(marked).filter(|(found, marked)| found != *marked).collect();
    assert!(wrong.is_empty(), "found and expected: {wrong:#?}");
}

#[test]
fn english_sentences_are_split() {
    check_all(&[
        "The kiln was repaired by Mr. Harrow on 3 May. ¦She left.",
        "The lease was signed by J. R. Quill. ¦It ends in June.",
        "The deposit is approx. 300 EUR. ¦It is paid back.",
        "The concert starts on Fri. 12 Sept. at 8 p.m. in the hall.",
        "The doors close at 8 p.m. ¦The hall opens at seven.",
        "The concert starts on Fri. 12 Dec. ¦Doors open at seven p.m. ¦Tickets cost 15 EUR.",
        "He bought ink, pens, etc. ¦She left.",
        "Smith et al. (2019) found 3.5 m, cf. Fig. 2 and No. 7. ¦J. Moor agreed! ¦\"Did he?\" ¦He did.",
        "He joined the U.S. Army in 1990. ¦Later he lived in the U.S. ¦It was cold there.",
        "The lease was signed by J. R. Holloway on behalf of Tarn Ltd. London office.",
        "It was sold to Brown & Co. ¦The price was low.",
        "Is the answer no? ¦No. ¦He left for St. Brendan Square No. 5 Upper Town.",
        "Use e.g. Rust or i.e. Nothing, viz. Smith vs. Jones.",
        "Martin Luther King Jr. spoke. ¦Dr. Aurelio Fenwick of Mill St. ¦The nearest is Prof. Dee.",
        "It weighs 5 kg. ¦Tickets cost more.",
        "\"Is it?\" she asked. ¦\"It is.\" ¦(It was not.) ¦He said “No.” ¦Then rain.",
        "Vitamin C. ¦The dose is vol. I, p. 12, Sec. B. ¦Then stop.",
        "The call is at 8 p.m. GMT on Mon. 3 June.",
    ]);
}

#[test]
fn german_sentences_are_split() {
    check_all(&[
        "Der Vertrag gilt ab dem 3. Mai. ¦Er endet am 12. Juni 2021.",
        "Nimm Obst mit, z. B. Äpfel, d. h. Kernobst. ¦Danach gehen wir.",
        "Frau Dr.-Ing. Weber und Hr. Prof. Dr. med. Kurz kommen. ¦Sie warten.",
        "Siehe Nr. 5, Abb. 3 und § 4 Abs. 2 Satz 1. ¦Der Rest folgt.",
        "Im 18. Jahrhundert lebte er im 3. Stock. ¦Es war kalt.",
        "Das kostet ca. 300 Euro inkl. MwSt. ¦Die Rechnung folgt.",
        "Es gab Nägel, Schrauben usw. ¦Alles war da.",
        "Im Jahr 44 v. Chr. starb er. ¦Es war im März. ¦Das war 44 v. Chr. ¦Danach kam Krieg.",
        "Sie wohnt in der Hauptstr. 5 bzw. Am Markt 3. ¦Das Haus ist rot.",
        "Er wurde 1998 geboren. ¦Im Jahr 2001. ¦Dann zog er um.",
        "Am 3. 5. 2020 kam Fr. Meier. ¦Sie blieb.",
        "„Kommst du?“ ¦Er kam. ¦»Nein.« ¦Sie ging.",
        "Die Fa. Huber GmbH zahlt 3 Mio. Euro. ¦Das ist viel.",
        "Sie war die 2. Vorsitzende und der 1. Preis ging an sie. ¦Sie gewann.",
    ]);
}

#[test]
fn french_sentences_are_split() {
    check_all(&[
        "Le four a été réparé par M. Dupont. ¦Il est bleu.",
        "Prenez un fruit, p. ex. une pomme. ¦Elle est rouge.",
        "César mourut en 44 av. J.-C. à Rome. ¦Il avait 55 ans.",
        "MM. Roux et Petit et Mme Blanc sont là. ¦Nous aussi.",
        "Il a des clous, des vis, etc. ¦Tout est prêt.",
        "Voir fig. 3, p. 12 et art. 5 du code. ¦Le reste suit.",
        "Le Dr. Morel et le Pr. Blanc viennent. ¦Ils sont deux.",
        "Viens-tu ? ¦Oui ! ¦Je viens.",
        "« Non. » ¦Il partit. ¦« Oui », dit-elle.",
        "L'entreprise Roux & Cie. vend du vin. ¦Le vin est bon.",
        "Il habite au 12 av. Foch, c.-à-d. près du parc. ¦C'est calme.",
        "Le bail court du 3 janv. 2020 au 5 févr. 2021. ¦Il est signé.",
        "J.-P. Martin, env. 40 ans, a signé. ¦On attend.",
    ]);
}

#[test]
fn spanish_sentences_are_split() {
    check_all(&[
        "El horno lo reparó el Sr. Gómez. ¦Es azul.",
        "Viajó a EE. UU. con la Dra. Ruiz. ¦Volvió en mayo.",
        "¿Viene Ud. mañana? ¦¡Sí! ¦Vengo.",
        "Trae fruta, p. ej. manzanas. ¦Luego comemos.",
        "Compró clavos, tornillos, etc. ¦Todo estaba allí.",
        "Véase la pág. 12, fig. 3 y núm. 5. ¦El resto sigue.",
        "Nació en el s. XIX y murió en 1910. ¦Era pintor.",
        "La cita es a las 8 p. m. en la sala. ¦No falte.",
        "La puerta cierra a las 8 p. m. ¦La sala abre a las siete.",
        "D. Manuel y Dña. Carmen firmaron. ¦Nadie más.",
        "Vive en la avda. Mayor, aprox. a 3 km. ¦El camino es largo.",
        "Murió en 44 a. C. en Roma. ¦Tenía 55 años.",
        "La empresa Soto S.A. vende vino. ¦El vino es bueno.",
    ]);
}

#[test]
fn italian_sentences_are_split() {
    check_all(&[
        "Il forno fu riparato dal sig. Rossi. ¦È blu.",
        "La sig.ra Conti e il dott. Neri sono qui. ¦Aspettano.",
        "Porta frutta, p. es. mele. ¦Poi mangiamo.",
        "Comprò chiodi, viti, ecc. ¦Tutto era lì.",
        "Vedi pag. 12, fig. 3 e art. 5. ¦Il resto segue.",
        "Morì nel 44 a.C. a Roma. ¦Aveva 55 anni.",
        "L'avv. G. Bianchi e l'ing. Verdi firmano. ¦Nessun altro.",
        "Il prof. Neri abita in p.zza Dante n. 3. ¦La casa è rossa.",
        "Vieni? ¦Sì! ¦Arrivo.",
        "«No.» ¦Se ne andò.",
        "La ditta Rossi S.p.A. vende vino. ¦Il vino è buono.",
        "Cfr. cap. 4, vol. II. ¦Il resto segue.",
        "Costa ca. 300 euro. ¦Il prezzo è giusto.",
    ]);
}

#[test]
fn portuguese_sentences_are_split() {
    check_all(&[
        "O forno foi reparado pelo Sr. Silva. ¦É azul.",
        "O Exmo. Sr. Dr. Costa assinou. ¦Ninguém mais.",
        "Traga fruta, p. ex. maçãs. ¦Depois comemos.",
        "Comprou pregos, parafusos, etc. ¦Tudo estava lá.",
        "Veja a pág. 12, fig. 3 e n.º 5. ¦O resto segue.",
        "Mora na Av. Central, n. 7, apto. 3. ¦A casa é azul.",
        "A Profa. Helena e a Sra. Dias saíram. ¦Elas voltam.",
        "Morreu em 44 a.C. em Roma. ¦Tinha 55 anos.",
        "A Cia. Azul Ltda. vende vinho. ¦O vinho é bom.",
        "Vem? ¦Sim! ¦Venho.",
        "Foi no séc. XIX. ¦O rei morreu.",
        "Custa aprox. 300 euros. ¦O preço é justo.",
        "V. Exa. assinou o art. 5. ¦Está feito.",
    ]);
}

#[test]
fn dutch_sentences_are_split() {
    check_all(&[
        "De oven is gemaakt door dhr. Bakker. ¦Hij is blauw.",
        "Mevr. De Wit en mr. Jansen kwamen. ¦Ze wachten.",
        "Neem fruit mee, bijv. appels. ¦Daarna eten we.",
        "Hij kocht spijkers, schroeven, enz. ¦Alles was er.",
        "Zie blz. 12, fig. 3 en art. 5. ¦De rest volgt.",
        "Dat kost ca. 300 euro incl. btw. ¦De prijs klopt.",
        "Hij kwam d.w.z. Jan kwam, o.a. voor de tuin. ¦Het regende.",
        "Prof. dr. J. van Dam sprak. ¦Het was druk.",
        "Hij leefde in de 19e eeuw, in 44 v.Chr. niet. ¦Rome viel.",
        "Kom je? ¦Ja! ¦Ik kom.",
        "De winkel van Smit B.V. is open. ¦De deur is groen.",
        "Het huis staat op nr. 5, t.o.v. de kerk. ¦De kerk is oud.",
        "Hij betaalde resp. 3 en 5 euro. ¦Dat was alles.",
    ]);
}

#[test]
fn polish_sentences_are_split() {
    check_all(&[
        "Piec naprawił p. Nowak. ¦Jest niebieski.",
        "Weź owoce, np. jabłka. ¦Potem zjemy.",
        "Mieszka przy ul. Długa 5, obok pl. Zamkowego. ¦Dom jest stary.",
        "Umowa z 3 maja 2019 r. obowiązuje. ¦Jest ważna.",
        "Szkoła działa od 1990 r. ¦Uczy się tu wiele osób.",
        "Kupił gwoździe, śruby itd. ¦Wszystko było.",
        "Dr hab. inż. J. Kowalski i prof. Lis przyszli. ¦Czekają.",
        "Zob. str. 12, rys. 3 i nr 5. ¦Reszta dalej.",
        "W XIX w. żył tu król. ¦Było zimno.",
        "Kosztuje ok. 300 zł. ¦Cena jest dobra.",
        "Przyszli m.in. Anna i Jan, tj. rodzina. ¦Padało.",
        "Ks. Jan i św. Piotr, tzn. patron. ¦To wszystko.",
        "Idziesz? ¦Tak! ¦Idę.",
    ]);
}

#[test]
fn russian_sentences_are_split() {
    check_all(&[
        "Печь починил г-н Орлов. ¦Она синяя.",
        "Он живёт в г. Москве на ул. Ленина, д. 5. ¦Дом старый.",
        "Возьми фрукты, т. е. яблоки. ¦Потом поедим.",
        "Он купил гвозди, шурупы и т. д. ¦Всё было готово.",
        "Договор от 3 мая 2019 г. действует. ¦Он подписан.",
        "Школа работает с 1990 г. ¦Здесь учится много детей.",
        "А. С. Пушкин родился в 1799 г. в Москве. ¦Он поэт.",
        "См. рис. 3 на стр. 12. ¦Остальное далее.",
        "Проф. Иванов и акад. Петров пришли. ¦Они ждут.",
        "Это стоит 300 руб. ¦Цена верная.",
        "В XIX в. здесь жил царь. ¦Было холодно.",
        "Пришли Анна, Иван и др. ¦Шёл дождь.",
        "Ты идёшь? ¦Да! ¦Иду.",
    ]);
}

#[test]
fn turkish_sentences_are_split() {
    check_all(&[
        "Fırını Doç. Dr. Kaya onardı. ¦Rengi mavidir.",
        "Ofis 3. katta, No. 5. ¦Asansör yok.",
        "Kalem, kâğıt vb. ¦Hepsi burada.",
        "Ev Atatürk Cad. No. 12, Lale Sok. üzerinde. ¦Bahçe büyük.",
        "Bkz. s. 12 ve şek. 3. ¦Gerisi sonra.",
        "19. yüzyılda burada yaşadı. ¦Hava soğuktu.",
        "II. Dünya Savaşı 1945'te bitti. ¦Bu iyiydi.",
        "Prof. A. Demir ve Av. Yılmaz geldi. ¦Bekliyorlar.",
        "Örn. elma alın. ¦Sonra yeriz.",
        "Geliyor musun? ¦Evet! ¦Geliyorum.",
        "T.C. Sağlık Bakanlığı yazdı. ¦Yanıt geldi.",
        "Ali Bey, Mah. muhtarı, imzaladı. ¦Bitti.",
        "Şirket Kaya Ltd. Şti. tarafından kuruldu. ¦Bu 1990'da oldu.",
    ]);
}

/// The texts of this test were written before the lists of abbreviations, so that they test the lists independently.
#[test]
fn sentence_pairs_of_all_languages_are_split() {
    check_all(&[
        "The lease was countersigned by Mrs. K. T. Oyelaran on 14 Feb. 2019. ¦It runs for six years.",
        "Ship the crates to Gen. Hollis at 12 Mt. Vernon Ave. before noon. ¦The gate closes early.",
        "Breakfast is served until 10 a.m. ¦Guests who come later may order toast.",
        "The alloy contains copper, tin, zinc, etc. ¦None of them rusts.",
        "Version 4.1.2 fixes the crash (cf. Sec. 3 and Eq. 12) on older phones. ¦Please update.",
        "He moved to Washington, D.C., in 1994 and taught at St. Olaf College. ¦His wife followed later.",
        "Der Vertrag wurde am 17. Oktober von Frau Prof. Dr. Lindner unterzeichnet. ¦Er gilt fünf Jahre.",
        "Bitte bringen Sie Werkzeug mit, z. B. Hammer, Säge usw. ¦Die Halle öffnet um acht.",
        "Die Lieferung erfolgt ca. 3 Wochen nach Eingang, ggf. auch früher. ¦Es fallen keine Kosten an.",
        "Im 19. Jahrhundert lebten hier rd. 400 Menschen. ¦Heute sind es mehr.",
        "Die Miete beträgt 1.250,50 Euro inkl. Nebenkosten gem. § 4 Abs. 2 des Vertrags. ¦Sie ist am 1. jedes Monats fällig.",
        "Das Gerät wiegt max. 12 kg und misst 3,5 m. ¦Zwei Personen tragen es leicht.",
        "Le contrat a été signé par Mme Lefèvre et M. P. Garnier le 1er avr. 2020. ¦Il dure trois ans.",
        "Voir l'art. 12 du règlement, p. ex. pour les vélos, les motos, etc. ¦Les voitures sont exclues.",
        "La société Durand & Cie. emploie env. 40 personnes à St. Malo. ¦Elle recrute encore.",
        "Le temple date du IIe siècle av. J.-C. et fut restauré par le Dr. Morel. ¦On le visite le dimanche.",
        "Cf. le chap. 4, pp. 12 à 19, pour le détail des calculs. ¦Les annexes sont à part.",
        "Le bureau ouvre à 8 h. 30 au no. 14 de l'av. Victor-Hugo. ¦Prenez l'escalier de gauche.",
        "La carta fue firmada por el Sr. Ortega y la Dra. Ruiz el 4 de mayo. ¦Nadie respondió.",
        "Viajó a EE. UU. con D. Manuel y Dña. Carmen en 1987. ¦Volvieron al año siguiente.",
        "El paquete pesa aprox. 3 kg y va a la avda. Libertad, núm. 18. ¦Llegará el lunes.",
        "¿Vendrá Ud. mañana a las 9 a. m. a la oficina? ¦Le esperamos en la pág. 3 del registro.",
        "Compramos tornillos, clavos, tuercas, etc. ¦Todo costó veinte euros.",
        "Según el art. 15, párr. 2, el plazo es de 30 días. ¦No se admiten prórrogas.",
        "Il documento è firmato dal dott. Bianchi e dalla sig.ra Conti. ¦È valido per un anno.",
        "Vedi pag. 12, par. 3, e la fig. 4 del manuale. ¦Le misure sono in metri.",
        "L'ing. G. Ferri abita in p.zza Garibaldi n. 7. ¦Riceve solo il martedì.",
        "Servono viti, dadi, bulloni, ecc. ¦Il negozio chiude alle sette.",
        "La battaglia avvenne nel 216 a.C. presso Canne. ¦I Romani persero.",
        "Il prezzo è di ca. 1.200 euro, IVA escl. per i soci. ¦Il pagamento è anticipato.",
        "O recibo foi assinado pelo Sr. Almeida e pela Dra. Sousa em 3 de março. ¦Está no arquivo.",
        "Enviar à Av. Brasil, n.º 45, aptº. 3, a/c da Profa. Helena. ¦O portão fica aberto.",
        "V. Exa. pode consultar a pág. 8, p. ex. o art. 2. ¦O prazo é curto.",
        "Levar pregos, parafusos, cola, etc. ¦A oficina fecha às seis.",
        "A Cia. Marítima Ltda. tem aprox. 90 navios no séc. XXI. ¦Metade deles é nova.",
        "O exame dura 45 min. no máximo, seg. o regulamento. ¦Ninguém pode sair antes.",
        "De brief is ondertekend door mevr. Bakker en dhr. J. de Wit op 3 jan. 2021. ¦Hij ligt in de kast.",
        "Neem gereedschap mee, bijv. een hamer, een zaag, enz. ¦De deur gaat om acht uur open.",
        "Het pakket weegt ca. 4 kg, incl. btw kost het 12,50 euro. ¦U betaalt aan de deur.",
        "Volgens art. 7 lid 2 jo. art. 9 is dit niet toegestaan. ¦De boete is hoog.",
        "Prof. dr. H. van Dam sprak o.a. over de dijken, d.w.z. over hun hoogte. ¦Het publiek luisterde.",
        "De trein vertrekt m.u.v. zondag om 9.15 uur van spoor nr. 4. ¦Reserveren is verplicht.",
        "Umowę podpisał dr inż. J. Kowalski oraz prof. Nowak dnia 3 maja 2018 r. w Krakowie. ¦Obowiązuje trzy lata.",
        "Sklep mieści się przy ul. Polnej 4, tj. obok poczty. ¦Wejście jest od podwórza.",
        "Zabierz narzędzia, np. młotek, piłę itp. ¦Hala otwiera się o ósmej.",
        "Firma istnieje od 1998 r. ¦Zatrudnia ok. 50 osób.",
        "W XIX w. mieszkało tu ok. 2 tys. osób. ¦Dziś jest ich więcej.",
        "Zob. rozdz. 4, str. 12, i rys. 3 w załączniku. ¦Wymiary podano w metrach.",
        "Договор подписал г-н И. П. Сидоров 3 мая 2019 г. в Москве. ¦Он действует три года.",
        "Возьмите инструменты: молоток, пилу и т. д. ¦Зал открывается в восемь.",
        "Склад находится на ул. Лесной, д. 4, стр. 2, т. е. за почтой. ¦Вход со двора.",
        "Завод построен в 1935 г. ¦На нём работало ок. 3 тыс. человек.",
        "См. рис. 3 и табл. 5 на с. 12. ¦Размеры даны в метрах.",
        "Цена составляет 500 руб. за кг, напр. для яблок. ¦Доставка бесплатна.",
        "Sözleşmeyi Doç. Dr. A. Kaya ve Av. Demir 3 Mayıs'ta imzaladı. ¦Süresi üç yıldır.",
        "Çekiç, testere, çivi vb. ¦Kapı saat sekizde açılır.",
        "Büro, Atatürk Cad. No. 12, 3. katta bulunuyor. ¦Asansör yoktur.",
        "19. yüzyılda burada yaklaşık 400 kişi yaşıyordu. ¦Bugün daha fazla.",
        "Bkz. s. 14 ve şek. 2, özellikle M.Ö. 500 yılı için. ¦Ölçüler metredir.",
        "Alb. Yılmaz, Yrd. Doç. Şahin'i T.C. Sağlık Bakanlığı'na gönderdi. ¦Yanıt gelmedi.",
    ]);
}

#[test]
fn marks_of_other_scripts_end_sentences() {
    check_all(&[
        "漢字です。¦次の文！¦そうですか？¦はい。",
        "彼は「はい。」と言った。¦終わり。",
        "你好。”¦他走了。",
        "هل جاء؟ ¦نعم. ¦وصل۔ ¦انتهى.",
        "वह आया। ¦वह गया।",
        "Ήρθε; ¦Ναι. ¦Έφυγε; δεν ξέρω.",
        "He came; he saw.",
    ]);
}

#[test]
fn numbers_urls_and_file_names_are_not_split() {
    check_all(&[
        "1. Item one. ¦2. Item two.",
        "3.2.1 Scope of v1.2.3 and a 3.5 m wall. ¦See https://a.example.org/x.html?q=1. ¦Open main.rs and a.b.txt. ¦Done.",
        "Wait ... there is more. ¦No… ¦Yes. ¦Chapter 1 . . . . . . 12",
        "Chapter 2 ........ 40",
        "He won 12. ¦Tickets were gone in 1998. ¦300 people came.",
        "Ice moves.[1] ¦It melts.[2][3] ¦It is gone. [4, 5] ¦It is gone.[sic] Then rain.",
        "THE DOORS CLOSE AT 8 P.M. ¦THE KILN OF MR. HARROW IS AT NO. 7. ¦IT IS BLUE.",
        "hello there. ¦how are you? ¦see fig. 3 or approx. ten of them.",
        "Sales rose. ¦iPhone sales fell.",
        "Plan B. ¦She left. ¦- Then (he) left. ¦**Note.** ¦Text.",
    ]);
}

#[test]
fn wrapped_prose_is_joined_but_separate_lines_are_not() {
    check_all(&[
        "The lease of the old kiln on the north shore was signed by Mr.\nHarrow in the presence of two witnesses who had come from the\nvillage. ¦It ends in June.",
        "One line of the text that is wide enough to be wrapped prose\nand another one.\n\n¦Next",
        "Deposit\n¦The deposit is 300 EUR and is paid back in June of the next year.",
        "This section of the Federal Register\ncontains notices to the public of the\nissuance of rules. ¦See U.S. Pat.\nNo. 4,738, by Mr.\nHarrow.",
        "The first line of a column has a word that was cut, acoustical, so that it is two of them\nand is much wider than all the others.\n¦The third",
        "- apples\n¦- pears, which are long enough to be wrapped at the end of the line\n  and go on here\n¦- plums",
        "1. Wash the apples\n¦2. Peel them\n¦3. Eat",
        "name: Ada Quill\n¦town: Tarn\n¦from: 1998",
        "| a | b |\n¦|---|---|\n¦| 1 | 2 |",
        "a\tb\n¦c\td",
        "# Title\n¦The text",
        "Tyger Tyger, burning bright,\n¦In the forests of the night;\n¦What immortal hand or eye,\n¦Could frame thy fearful symmetry?",
        "> quoted text that goes on for long enough to be wrapped by the mail\n> program of the sender\n¦Answer",
        "apples\n¦pears\n¦plums",
        "\n\n¦One.\r\n\r\n¦Two.\n",
        "",
        " \n ",
    ]);
}

#[test]
fn trimmed_sentences_have_no_outer_blanks() {
    let text = "  One. Two.\n\n \n";
    let found: Vec<&str> = trimmed_sentences(text).into_iter().map(|it| &text[it]).collect();
    assert_eq!(found, ["One.", "Two."]);
}

/// The time to split a text must depend only on its length, not on its characters.
#[test]
fn runs_of_marks_take_linear_time() {
    const BYTES: usize = 2 << 20;
    for row in [
        ")",
        " ",
        ".",
        "\n",
        "a",
        "?",
        "[",
        ".[",
        ".[1",
        ". ",
        "(\u{301}",
        ".\u{301}",
        "\u{a0}",
        "A. ",
        "a.",
        "a\n",
        "\t",
        "1. ",
        "- a\n",
        ". (",
        "。",
        ";",
        ".\u{a0}»",
        "b: c\n",
        "Mr. ",
        "|",
        ">\n",
        "a b ",
    ] {
        let row_of = |bytes: usize| row.repeat(bytes / row.len());
        let behind_figures =
            format!("{}A? {}b? {}", "1 ".repeat(BYTES / 4), row_of(BYTES / 4), "b? ".repeat(BYTES / 12));
        for text in [row_of(BYTES), format!("One.{}A", row_of(BYTES)), behind_figures] {
            let begun = Instant::now();
            let found = sentences(&text);
            assert!(begun.elapsed() < Duration::from_secs(10), "{row:?}: {:?}", begun.elapsed());
            assert_eq!((found[0].start, found.last().unwrap().end), (0, text.len()), "{row:?}");
        }
    }
}

#[test]
fn marks_after_full_stop_end_one_sentence() {
    for (row, behind) in [(")", "A"), (" ", "a"), ("(\u{301}", "="), ("\u{a0}", "1")] {
        let text = format!("One.{}{behind}", row.repeat(1_000_000));
        assert!(sentences(&text).len() <= 2, "{row:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn sentences_cover_arbitrary_text_without_gaps(
        parts in prop::collection::vec(("[a-zA-Z0-9.!?,;:)\"|>#\u{201d}(\u{301}\u{ad} \t\r\n=漢。é\u{2028}-]{0,6}", 1_usize..30), 0..16),
    ) {
        let text: String = parts.iter().map(|(part, times)| part.repeat(*times)).collect();
        let mut at = 0;
        for sentence in sentences(&text) {
            prop_assert_eq!(sentence.start, at);
            prop_assert!(sentence.end > at && text.is_char_boundary(sentence.end));
            at = sentence.end;
        }
        prop_assert_eq!(at, text.len());
    }

    #[test]
    fn trimmed_sentences_keep_all_non_blank_characters(text in "\\PC{0,80}") {
        let kept: String = trimmed_sentences(&text).into_iter().map(|it| text[it].to_string()).collect();
        let solid = |it: &str| it.chars().filter(|it| !it.is_whitespace()).collect::<String>();
        prop_assert_eq!(solid(&kept), solid(&text));
    }
}
